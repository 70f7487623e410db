"""`penstock mirror`: copy a running cluster into another one, until the programs change over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from penstock.cli.failures import Failure, explain, sentence
from penstock.cli.options import CONTEXT_SETTINGS, Group, json_option, option
from penstock.cli.output import count, note, print_json, print_table

if TYPE_CHECKING:
    from penstock.cli.mirror_tasks import SparkTasks
    from penstock.mirror.run import Mirror, Plan, Status

F = TypeVar("F", bound=Callable[..., object])
Settings = dict[str, object]

_LINE_EVERY_S = 10.0
_DRAW_EVERY_S = 0.5
_ONCE_POLL_S = 0.1
_CLEAR = "\r\x1b[K"
_HERE = "local[*,4]"
"""This machine; a task that fails is started again, as on a cluster."""


def _side_options(function: F) -> F:
    for add in (
        option("--to-config", type=click.Path(exists=True, dir_okay=False), help="The same for the target."),
        option(
            "--from-config",
            type=click.Path(exists=True, dir_okay=False),
            help="Properties file with Kafka's client settings for the source: user, password, TLS.",
        ),
        option("--to", "to", metavar="HOST:PORT", help="A broker of the target."),
        option("--from", "from_", metavar="HOST:PORT", help="A broker of the source."),
    ):
        function = add(function)
    return function


def _choice_options(function: F) -> F:
    for add in (
        option("--again", is_flag=True, help="Mirror even though this direction has been cut over before."),
        option("--acls", is_flag=True, help="Copy access rules too."),
        option(
            "--exclude", multiple=True, metavar="PATTERN", help="Topics that are not mirrored; may be given repeatedly."
        ),
        option(
            "--topic",
            "topics",
            multiple=True,
            metavar="PATTERN",
            help="Topics that are mirrored, such as 'orders-*'; all if left out. May be given repeatedly.",
        ),
    ):
        function = add(function)
    return function


@click.group(cls=Group, invoke_without_command=True, context_settings=CONTEXT_SETTINGS)
@_side_options
@_choice_options
@option("--once", is_flag=True, help="Copy what is there, then stop.")
@option(
    "--spark",
    is_flag=False,
    flag_value=_HERE,
    metavar="[MASTER]",
    help="Copy what is there with Spark first, on all cores of this machine or on MASTER.",
)
@json_option
@click.pass_context
def mirror(
    ctx: click.Context,
    from_: str | None,
    to: str | None,
    from_config: str | None,
    to_config: str | None,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    acls: bool,
    again: bool,
    once: bool,
    spark: str | None,
    as_json: bool,
) -> None:
    """Copy a running cluster into another one, with equal offsets, until the programs change over.

    Both sides may be Penstock or Apache Kafka. Topics, configs, records and the offsets of groups are copied
    continuously, each record exactly once; what the target has already must be a copy. It can be interrupted, killed
    and started again at any time. Let it run until the programs have stopped, then finish with the command cut-over.

    \b
      penstock mirror --from kafka:9092 --to penstock:9092
      penstock mirror --from kafka:9092 --to penstock:9092 --spark spark://spark:7077
      penstock mirror status --from kafka:9092 --to penstock:9092
      penstock mirror cut-over --from kafka:9092 --to penstock:9092
    """
    if ctx.invoked_subcommand is not None:
        return
    source, target = _sides(from_, to, from_config, to_config)
    tasks = None if spark is None else _spark_tasks(spark)
    _run(lambda: _mirror(source, target, _plan(topics, exclude, acls, again), once, as_json, tasks))


@mirror.command(context_settings=CONTEXT_SETTINGS)
@_side_options
@json_option
def status(from_: str | None, to: str | None, from_config: str | None, to_config: str | None, as_json: bool) -> None:
    """Show how much of each topic the target has; no mirror needs to be running.

    \b
      penstock mirror status --from kafka:9092 --to penstock:9092
    """
    from penstock.mirror.standing import standing

    source, target = _sides(from_, to, from_config, to_config)
    rows = _run(lambda: standing(source, target))
    if as_json:
        print_json(
            [
                {
                    "topic": row.topic,
                    "partitions": row.partitions,
                    "records_end": row.source_end,
                    "mirrored_to": row.target_end,
                    "lag": row.lag,
                    "cut_over_ms": row.cut_over_ms if row.cut_over_ms >= 0 else None,
                }
                for row in rows
            ]
        )
        return
    if not rows:
        note("No mirror from this source has written to this target.")
        return
    print_table(
        ("TOPIC", "PARTITIONS", "LAG", "STATE"),
        [(row.topic, row.partitions, row.lag, "cut over" if row.cut_over_ms >= 0 else "mirrored") for row in rows],
    )


@mirror.command("cut-over", context_settings=CONTEXT_SETTINGS)
@_side_options
@_choice_options
@option(
    "--still-for",
    type=click.FloatRange(0.5),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="For how long nothing may have been written to the source.",
)
@option(
    "--timeout",
    type=click.FloatRange(1.0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for that, and for the last records.",
)
@option(
    "--compare",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    metavar="OFFSETS",
    help="How many offsets before the end of each partition are compared record by record; 0 compares all.",
)
@json_option
def cut_over(
    from_: str | None,
    to: str | None,
    from_config: str | None,
    to_config: str | None,
    topics: tuple[str, ...],
    exclude: tuple[str, ...],
    acls: bool,
    again: bool,
    still_for: float,
    timeout: float,
    compare: int,
    as_json: bool,
) -> None:
    """Finish a mirror: copy the last records and offsets, compare both sides, make the target ready.

    Stop the programs that write to the source and those that read from it, then run this with the options of the
    mirror. A mirror that runs is taken over. If anything differs, or somebody still writes, nothing is changed and the
    command says what to do; the mirror can be started again.

    \b
      penstock mirror cut-over --from kafka:9092 --to penstock:9092
      penstock mirror cut-over --from kafka:9092 --to penstock:9092 --compare 0
    """
    from penstock.mirror.cut_over import Refused
    from penstock.mirror.cut_over import cut_over as finish
    from penstock.mirror.run import Mirror

    source, target = _sides(from_, to, from_config, to_config)
    plan = _plan(topics, exclude, acls, again)

    async def main() -> None:
        async with Mirror(source, target, plan) as running:
            try:
                done = await finish(
                    running,
                    still_s=still_for,
                    timeout_s=timeout,
                    records=compare,
                    tell=(lambda text: None) if as_json else note,
                )
            except Refused as refusal:
                if as_json:
                    print_json({"cut_over": False, "reasons": refusal.reasons})
                    raise click.exceptions.Exit(1) from refusal
                raise
        if as_json:
            print_json(
                {
                    "cut_over": True,
                    "topics": done.topics,
                    "partitions": done.partitions,
                    "records_compared": done.records_compared,
                    "groups": done.groups,
                    "notes": done.notes,
                }
            )
            return
        click.echo(
            f"The target has everything: {count(done.topics, 'topic')}, {count(done.partitions, 'partition')}, "
            f"{count(done.groups, 'group')}. Compared {count(done.records_compared, 'record')}."
        )
        for text in done.notes:
            click.echo(f"note: {text}")
        click.echo(f"Start the programs with bootstrap.servers={target['bootstrap_servers']}.")
        click.echo(
            "To be able to go back:  penstock mirror "
            f"--from {target['bootstrap_servers']} --to {source['bootstrap_servers']}"
        )

    _run(main)


# How commands run


def _plan(topics: tuple[str, ...], exclude: tuple[str, ...], acls: bool, again: bool) -> Plan:
    from penstock.mirror.run import Plan

    return Plan(include=topics or ("*",), exclude=exclude, with_acls=acls, again=again)


def _sides(
    from_: str | None, to: str | None, from_config: str | None, to_config: str | None
) -> tuple[Settings, Settings]:
    return _settings("--from", from_, from_config), _settings("--to", to, to_config)


def _settings(name: str, address: str | None, file: str | None) -> Settings:
    from penstock.client.config import ClientConfig, field_of, load, parse_addresses
    from penstock.client.errors import UsageError
    from penstock.properties import read_properties

    settings: Settings = {}
    if file is not None:
        try:
            settings = {field_of(key): value for key, value in read_properties(Path(file).read_text()).items()}
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"{file} cannot be read: {error}") from None
    if address is not None:
        settings["bootstrap_servers"] = address
    if "bootstrap_servers" not in settings:
        raise click.UsageError(f"Name a broker: {name} HOST:PORT, or bootstrap.servers in the file of {name}-config.")
    try:
        parse_addresses(load(ClientConfig, settings, {}).bootstrap_servers)
    except UsageError as error:
        raise click.UsageError(f"{file or name}: {error}") from None
    return settings


T = TypeVar("T")


def _run(work: Callable[[], Awaitable[T]]) -> T:
    from penstock.client.errors import BrokerUnreachable
    from penstock.mirror.failures import MirrorError

    async def main() -> T:
        return await work()

    try:
        return asyncio.run(main())
    except MirrorError as error:
        raise Failure(str(error)) from error
    except BrokerUnreachable as error:
        raise Failure(f"{sentence(str(error))}. Is it running, and are --from and --to right?") from error
    except click.ClickException:
        raise
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        raise Failure(sentence(explained)) from error


def _spark_tasks(master: str) -> SparkTasks:
    from penstock.cli.mirror_tasks import SparkTasks
    from penstock.spark.java import SetupError

    try:
        return SparkTasks(master)
    except SetupError as error:
        raise Failure(str(error)) from error


async def _mirror(
    source: Settings, target: Settings, plan: Plan, once: bool, as_json: bool, tasks: SparkTasks | None
) -> None:
    from penstock.mirror.run import Mirror

    loop = asyncio.get_running_loop()
    async with Mirror(source, target, plan, spread=tasks) as running:
        work = asyncio.create_task(running.run())
        shown = asyncio.create_task(_show(running, as_json))
        waits: set[asyncio.Task[None]] = {work}
        if once:
            waits.add(asyncio.create_task(_caught_up(running)))
        stopped = asyncio.Event()
        with contextlib.suppress(NotImplementedError):  # elsewhere than on Unix
            loop.add_signal_handler(signal.SIGTERM, stopped.set)
        waits.add(asyncio.create_task(_wait(stopped)))
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (shown, *waits):
                task.cancel()
            await asyncio.gather(shown, *waits, return_exceptions=True)
            _print_status(running.status(), 0.0, as_json, is_last=True)
        if once and (problems := running.status().problems):
            raise Failure("\n".join(["Some topics are not mirrored:", *(f"  - {each}" for each in problems)]))


async def _wait(stopped: asyncio.Event) -> None:
    await stopped.wait()


async def _caught_up(running: Mirror) -> None:
    """Return when everything that was there has been copied, groups included."""
    while True:
        await asyncio.sleep(_ONCE_POLL_S)
        status = running.status()
        if status.is_ready and not status.lag and not status.trouble:
            await running.note_progress()
            await running.copy_groups()
            if not running.status().lag and not running.status().held_back:
                return


async def _show(running: Mirror, as_json: bool) -> None:
    is_terminal = sys.stderr.isatty() and not as_json
    pause = _DRAW_EVERY_S if is_terminal else 1.0 if as_json else _LINE_EVERY_S
    before, at = running.status().bytes, time.monotonic()
    told: set[str] = set()
    while True:
        await asyncio.sleep(pause)
        status, now = running.status(), time.monotonic()
        rate = (status.bytes - before) / (now - at)
        before, at = status.bytes, now
        for text in (*status.problems, *status.notes):
            if text not in told and not as_json:
                told.add(text)
                note(f"{_CLEAR if is_terminal else ''}{text}")
        _print_status(status, rate, as_json, is_drawn=is_terminal)


def _print_status(status: Status, rate: float, as_json: bool, *, is_drawn: bool = False, is_last: bool = False) -> None:
    if as_json:
        click.echo(
            json.dumps(
                {
                    "topics": status.topics,
                    "partitions": status.partitions,
                    "lag": status.lag,
                    "records": status.records,
                    "bytes": status.bytes,
                    "bytes_per_second": round(rate),
                    "groups": status.groups,
                    "offsets_held_back": status.held_back,
                    "ready": status.is_ready,
                    "problems": status.problems,
                    "notes": status.notes,
                    "trouble": status.trouble or None,
                }
            )
        )
        sys.stdout.flush()
        return
    text = (
        f"{count(status.topics, 'topic')}, {count(status.partitions, 'partition')}, {count(status.groups, 'group')}: "
        f"{status.records:,} records, {status.bytes / 1e6:,.1f} MB copied, lag {status.lag:,}"
    )
    if not is_last:
        text += f", {rate / 1e6:,.1f} MB/s"
    if status.trouble and not is_last:
        text += f" (trying again: {status.trouble})"
    if is_drawn:
        click.echo(f"{_CLEAR}{text}", nl=False, err=True)
    else:
        note(f"{_CLEAR if is_last and sys.stderr.isatty() else ''}{text}")
