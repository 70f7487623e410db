"""`penstock share redrive`: put the records of dead letters back into their topics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from penstock.cli.connecting import connection_settings
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Command, bootstrap_option, option
from penstock.cli.output import note
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.dead_letters import Outcome


@click.command("redrive", cls=Command, context_settings=CONTEXT_SETTINGS)
@click.argument("group", metavar="GROUP")
@option("--letter", metavar="PARTITION:OFFSET", help="Only this letter of the dead-letter topic.")
@bootstrap_option
def redrive(group: str, letter: str | None, bootstrap: str) -> None:
    """Put the records of a share group's dead letters back into their topics.

    Every group that reads those topics gets them again. A letter is put back once: the offsets of the group
    redrive.GROUP remember which have been.

    \b
      penstock share redrive workers
      penstock share redrive workers --letter 0:17
    """
    if letter is not None and not re.fullmatch(r"\d{1,9}:\d{1,18}", letter):
        raise click.UsageError(f"{letter!r} is no PARTITION:OFFSET, as 0:17.")
    partition, _, offset = (letter or "").partition(":")
    only = (int(partition), int(offset)) if letter else None
    outcome = with_admin(bootstrap, lambda admin: _redrive(admin, bootstrap, group, only))
    note(f"{outcome.back} records of {group} are back in their topics." + _gone(outcome))


def _gone(outcome: Outcome) -> str:
    return f" {outcome.gone} are nowhere any more: neither in their topics nor in the letters." if outcome.gone else ""


async def _redrive(admin: Admin, bootstrap: str, group: str, only: tuple[int, int] | None) -> Outcome:
    from penstock.client import dead_letters
    from penstock.client.consumer import Consumer
    from penstock.client.producer import Producer

    topic = await dead_letters.dead_letter_topic(admin, group)
    if topic is None:
        raise Failure(
            f"Share group {group!r} has no dead-letter topic.\n"
            f"  Name one with:    penstock config set group {group} {dead_letters.TOPIC_CONFIG}=TOPIC"
        )
    settings = connection_settings(bootstrap)
    async with (
        Consumer(
            settings, client_id="penstock-cli", enable_auto_commit=False, auto_offset_reset="earliest"
        ) as consumer,
        Producer(settings, client_id="penstock-cli", linger_ms=0, allow_auto_create_topics=False) as producer,
    ):
        return await dead_letters.redrive(admin, consumer, producer, group, topic, only=only)
