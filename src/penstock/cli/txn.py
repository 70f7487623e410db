"""`penstock txn`: transactions. Columns are those of Kafka's kafka-transactions.sh."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import Failure, nearest
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin, TransactionDescription

STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def txn() -> None:
    """Inspect transactions, and abort those that hang."""


@txn.command("list")
@option("--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only in this state.")
@option("--longer-than", type=click.IntRange(0), metavar="MS", help="Only transactions that began longer ago.")
@option("--pattern", metavar="RE2", help="Only transactional ids that match as a whole.")
@bootstrap_option
@json_option
def list_(states: tuple[str, ...], longer_than: int | None, pattern: str | None, bootstrap: str, as_json: bool) -> None:
    """List transactional ids and the state of their transactions.

    \b
      penstock txn list --state Ongoing --longer-than 60000
    """
    longer_than_ms = -1 if longer_than is None else longer_than
    found = with_admin(
        bootstrap,
        lambda admin: admin.list_transactions(states=states, running_longer_than_ms=longer_than_ms, pattern=pattern),
    )
    if as_json:
        print_json([each._asdict() for each in found])
    elif found:
        print_table(
            ["TransactionalId", "ProducerId", "TransactionState"],
            [[each.transactional_id, each.producer_id, each.state] for each in found],
        )
    elif states or pattern or longer_than is not None:
        note("No transaction matches.")
    else:
        note("There are no transactional ids. One appears when a producer with a transactional.id starts.")


@txn.command("describe")
@click.argument("transactional_id", metavar="TRANSACTIONAL_ID")
@bootstrap_option
@json_option
def describe(transactional_id: str, bootstrap: str, as_json: bool) -> None:
    """Show the transaction of a transactional id, and the partitions it writes to."""
    found = with_admin(bootstrap, lambda admin: _described(admin, transactional_id))
    is_open = found.state == "Ongoing"
    duration_ms = int(time.time() * 1000) - found.start_time_ms if is_open else None
    partitions = [str(each) for each in found.partitions]
    if as_json:
        print_json(
            {
                "coordinator": found.coordinator,
                "transactional_id": found.transactional_id,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "state": found.state,
                "timeout_ms": found.timeout_ms,
                "start_time_ms": found.start_time_ms if is_open else None,
                "duration_ms": duration_ms,
                "partitions": partitions,
            }
        )
        return
    rows: list[tuple[str, Cell]] = [
        ("CoordinatorId", found.coordinator),
        ("TransactionalId", found.transactional_id),
        ("ProducerId", found.producer_id),
        ("ProducerEpoch", found.producer_epoch),
        ("TransactionState", found.state),
        ("TransactionTimeoutMs", found.timeout_ms),
        ("CurrentTransactionStartTimeMs", found.start_time_ms if is_open else None),
        ("TransactionDurationMs", duration_ms),
        ("TopicPartitions", ",".join(partitions)),
    ]
    print_table([name for name, _ in rows], [[value for _, value in rows]])


@txn.command("abort")
@click.argument("transactional_id", metavar="[TRANSACTIONAL_ID]", required=False)
@option("--topic", help="Topic of a hanging transaction that no coordinator knows.")
@option("--partition", type=click.IntRange(0), help="Its partition.")
@option("--start-offset", type=click.IntRange(0), help="The offset of its first record.")
@bootstrap_option
def abort(
    transactional_id: str | None, topic: str | None, partition: int | None, start_offset: int | None, bootstrap: str
) -> None:
    """Abort an open transaction.

    By its transactional id: the producer is fenced, and its transaction aborted in all partitions. By topic, partition
    and start offset: a marker is written there, for a transaction that hangs without a coordinator that knows it.

    \b
      penstock txn abort my-transactional-id
      penstock txn abort --topic orders --partition 0 --start-offset 4711
    """
    if transactional_id is not None:
        if topic is not None or partition is not None or start_offset is not None:
            raise click.UsageError("Give a transactional id, or --topic, --partition and --start-offset; not both.")
        known = transactional_id
        found = with_admin(bootstrap, lambda admin: _described(admin, known))
        if found.state != "Ongoing":
            raise Failure(
                f"Transactional id {known!r} has no open transaction (it is {found.state}).\n"
                "  See the open ones:  penstock txn list --state Ongoing"
            )
        with_admin(bootstrap, lambda admin: admin.fence_producers(known))
        note(f"Aborted the transaction of {known}; its producer is fenced.")
        return
    if topic is None or partition is None or start_offset is None:
        raise click.UsageError("Give a transactional id, or --topic, --partition and --start-offset.")
    from penstock.client.types import TopicPartition

    tp, offset = TopicPartition(topic, partition), start_offset
    with_admin(bootstrap, lambda admin: admin.abort_transaction(tp, offset))
    note(f"Aborted the transaction that began in {tp} at offset {offset}.")


async def _described(admin: Admin, transactional_id: str) -> TransactionDescription:
    from penstock.wire.errors import TransactionalIdNotFound

    try:
        return await admin.describe_transaction(transactional_id)
    except TransactionalIdNotFound:
        known = [each.transactional_id for each in await admin.list_transactions()]
        guess = nearest(transactional_id, known)
        lines = [f"There is no transactional id {transactional_id!r}."]
        if guess:
            lines.append(f"  Did you mean:       {guess}")
        lines.append("  See all of them:    penstock txn list")
        raise Failure("\n".join(lines)) from None
