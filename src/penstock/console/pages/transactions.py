"""Transactions: which are open and for how long, whose holds back readers of committed records, and aborting them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client.admin import Admin, TransactionDescription
from penstock.client.types import IsolationLevel, OffsetSpec, TopicPartition
from penstock.console.commands import command
from penstock.console.questions import Change, Form
from penstock.console.web import Page, change, field_of, number_of, page, session_of
from penstock.wire.errors import KafkaError

NAVIGATION = [("/transactions", "Transactions", "x")]
_MOST_IDS = 500
_MOST_OPEN = 200
_MOST_HELD = 200
_AT_ONCE = 16
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_ADDRESS = "/transactions"


async def transactions(request: Request) -> Page:
    admin = await session_of(request).admin()
    every = await admin.list_transactions()
    under_way = [each for each in every if each.state in _OPEN]
    described = await _described(admin, [each.transactional_id for each in under_way[:_MOST_OPEN]])
    now_ms = int(time.time() * 1000)
    rows = [
        {
            "id": each.transactional_id,
            "state": each.state,
            "producer": each.producer_id,
            "epoch": each.producer_epoch,
            "coordinator": each.coordinator,
            "seconds": max(0, now_ms - each.start_time_ms) / 1000 if each.start_time_ms >= 0 else None,
            "timeoutSeconds": each.timeout_ms / 1000,
            "partitions": [str(tp) for tp in each.partitions],
        }
        for each in described
    ]
    rows.sort(key=lambda row: -float(str(row["seconds"] or 0)))
    held, hidden = await _held(admin, {each.producer_id: each.transactional_id for each in every})
    idle = [each for each in every if each.state not in _OPEN]
    data = {
        "open": rows,
        "held": held,
        "idle": [
            {"id": each.transactional_id, "state": each.state, "producer": each.producer_id}
            for each in idle[:_MOST_IDS]
        ],
        "idle_count": len(idle),
        "left_out": max(0, len(under_way) - _MOST_OPEN),
        "hidden": hidden,
    }
    return Page("transactions.html", data, 2.0)


async def _described(admin: Admin, ids: Iterable[str]) -> list[TransactionDescription]:
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(transactional_id: str) -> TransactionDescription | None:
        async with few:
            try:
                return await admin.describe_transaction(transactional_id)
            except KafkaError:
                return None  # it has ended meanwhile

    return [found for found in await asyncio.gather(*(one(each) for each in ids)) if found is not None]


async def _held(admin: Admin, ids: dict[int, str]) -> tuple[list[dict[str, object]], int]:
    """The partitions whose last stable offset stands still below the high watermark, and who holds each; and how many
    more there are whose producers this user may not see."""
    led = [
        TopicPartition(info.name, number)
        for info in await admin.list_topics(include_internal=True)
        for number, known in info.partitions.items()
        if known.leader >= 0
    ]
    if not led:
        return [], 0
    wanted = dict.fromkeys(led, int(OffsetSpec.LATEST))
    ends, stable = await asyncio.gather(
        admin.list_offsets(wanted),
        admin.list_offsets(wanted, isolation=IsolationLevel.READ_COMMITTED),
    )
    behind = [tp for tp in led if tp in ends and tp in stable and stable[tp].offset < ends[tp].offset]
    rows: list[dict[str, object]] = []
    hidden = 0
    for tp in behind[:_MOST_HELD]:
        try:
            producers = (await admin.describe_producers([tp]))[tp]
        except KafkaError:
            hidden += 1
            continue
        first = min(
            (each for each in producers if each.current_transaction_start_offset >= 0),
            key=lambda each: each.current_transaction_start_offset,
            default=None,
        )
        if first is None:
            continue  # it has ended meanwhile
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "stable": stable[tp].offset,
                "end": ends[tp].offset,
                "producer": first.producer_id,
                "start": first.current_transaction_start_offset,
                "id": ids.get(first.producer_id, ""),
            }
        )
    return rows, hidden + max(0, len(behind) - _MOST_HELD)


async def abort(request: Request, form: Form) -> Change:
    session = session_of(request)
    admin = await session.admin()
    if "id" in form:
        name = field_of(form, "id", limit=10_000)
        found = await admin.describe_transaction(name)
        if found.state != "Ongoing":
            raise HTTPException(409, f"Transactional id {name} has no open transaction; it is {found.state}.")

        async def fence(_: Form) -> str:
            now = await admin.describe_transaction(name)
            if (now.state, now.start_time_ms) != (found.state, found.start_time_ms):
                raise HTTPException(409, f"The transaction of {name} has ended meanwhile.")
            await admin.fence_producers(name)
            return f"The transaction of {name} is aborted, and its producer is fenced."

        question = f"Abort the transaction of {name}, and fence its producer?"
        rows = [(str(tp),) for tp in found.partitions]
        line = command(session, "txn", "abort", name)
        return Change(question, line, _ADDRESS, fence, "Abort it", danger=True, columns=("Writes to",), rows=rows)
    topic, _, numbers = field_of(form, "where", limit=400).partition(":")
    partition_text, _, offset_text = numbers.partition(":")
    partition = number_of(partition_text, "Partition", 0, 2**31 - 1)
    offset = number_of(offset_text, "Start offset")

    async def mark(_: Form) -> str:
        await admin.abort_transaction((topic, partition), offset)
        return f"The transaction that began in {topic}-{partition} at offset {offset} is aborted there."

    line = command(session, "txn", "abort", "--topic", topic, "--partition", partition, "--start-offset", offset)
    question = f"Abort the transaction that began in {topic}-{partition} at offset {offset}?"
    return Change(question, line, _ADDRESS, mark, "Abort it", danger=True)


ROUTES = [*page(_ADDRESS, transactions), *change("/transactions/abort", abort)]
