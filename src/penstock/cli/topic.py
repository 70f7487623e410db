"""`penstock topic`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.config_changes import alter_configs
from penstock.cli.failures import Failure, unknown_topic
from penstock.cli.lookups import find_topic
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, json_option, option, pairs
from penstock.cli.output import note, print_json, print_table
from penstock.cli.running import with_admin

if TYPE_CHECKING:
    from penstock.client.admin import Admin
    from penstock.client.metadata import TopicInfo
    from penstock.client.types import TopicPartition


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def topic() -> None:
    """Create, list, describe, change and delete topics."""


@topic.command("create")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@option("--partitions", type=click.IntRange(1), help="Number of partitions; the broker's num.partitions if left out.")
@option("--replicas", type=click.IntRange(1), help="Replication factor; the broker's default if left out.")
@option("-c", "--set", "configs", metavar="NAME=VALUE", multiple=True, help="A topic config by its name in Kafka.")
@option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists already.")
@bootstrap_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
) -> None:
    """Create topics.

    \b
      penstock topic create orders --partitions 6
      penstock topic create customers -c cleanup.policy=compact
    """
    from penstock.client.admin import NewTopic
    from penstock.wire.errors import TopicAlreadyExists

    settings = pairs(configs, "-c")
    new = [NewTopic(name, partitions or -1, replicas or -1, settings) for name in names]
    outcome = with_admin(bootstrap, lambda admin: admin.create_topics(new))
    failures = []
    for name, error in outcome.items():
        if error is None:
            note(f"Created topic {name}.")
        elif isinstance(error, TopicAlreadyExists):
            if not if_not_exists:
                failures.append(f"Topic {name!r} exists already.\n  See it:             penstock topic describe {name}")
        else:
            failures.append(str(error)[0].upper() + str(error)[1:])
    if failures:
        raise Failure("\n".join(failures))


@topic.command("list")
@option("--internal", is_flag=True, help="Also show the topics that brokers keep for themselves.")
@bootstrap_option
@json_option
def list_(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List all topics."""
    found = with_admin(bootstrap, lambda admin: admin.list_topics(include_internal=internal))
    if as_json:
        print_json([_summary(info) for info in found])
        return
    if not found:
        note("There are no topics yet. Create one: penstock topic create NAME")
        return
    print_table(
        ["Topic", "Partitions", "Replicas", "TopicId"],
        [[info.name, len(info.partitions), _replication(info), _id_text(info.topic_id)] for info in found],
    )


@topic.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@option("--all-configs", is_flag=True, help="Also show configs that have their default value.")
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], all_configs: bool, bootstrap: str, as_json: bool) -> None:
    """Show partitions, offsets and configs of topics."""
    found = with_admin(bootstrap, lambda admin: _describe(admin, names, all_configs))
    if as_json:
        print_json(found)
        return
    for described in found:
        partitions = described["partitions"]
        assert isinstance(partitions, list)
        configs = described["configs"]
        assert isinstance(configs, dict)
        click.echo(
            f"Topic: {described['name']}  TopicId: {described['id']}  PartitionCount: {len(partitions)}  "
            f"ReplicationFactor: {described['replication_factor']}"
        )
        if configs:
            click.echo("Configs: " + ",".join(f"{name}={value}" for name, value in configs.items()))
        print_table(
            ["Partition", "Leader", "Replicas", "Isr", "Earliest", "Latest"],
            [
                [
                    p["partition"],
                    p["leader"],
                    ",".join(map(str, p["replicas"])),
                    ",".join(map(str, p["isr"])),
                    p["earliest"],
                    p["latest"],
                ]
                for p in partitions
            ],
        )


async def _describe(admin: Admin, names: tuple[str, ...], all_configs: bool) -> list[dict[str, object]]:
    from penstock.client.admin import ResourceType
    from penstock.client.types import OffsetSpec, TopicPartition

    described: list[dict[str, object]] = []
    for name in names:
        info = await find_topic(admin, name)
        led: list[TopicPartition] = [
            TopicPartition(name, p.partition) for p in info.partitions.values() if p.leader >= 0
        ]
        earliest = await admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.EARLIEST)))
        latest = await admin.list_offsets(dict.fromkeys(led, int(OffsetSpec.LATEST)))
        configs = await admin.describe_configs(ResourceType.TOPIC, name)
        described.append(
            {
                **_summary(info),
                "configs": {
                    entry.name: entry.value for entry in sorted(configs.values()) if all_configs or not entry.is_default
                },
                "partitions": [
                    {
                        "partition": p.partition,
                        "leader": p.leader,
                        "replicas": p.replicas,
                        "isr": p.isr,
                        "earliest": earliest[tp].offset
                        if (tp := TopicPartition(name, p.partition)) in earliest
                        else None,
                        "latest": latest[tp].offset if tp in latest else None,
                    }
                    for p in (info.partitions[number] for number in sorted(info.partitions))
                ],
            }
        )
    return described


@topic.command("alter")
@click.argument("name", metavar="TOPIC")
@option("--partitions", type=click.IntRange(1), help="Raise the number of partitions to this.")
@option("-c", "--set", "configs", metavar="NAME=VALUE", multiple=True, help="Set a config.")
@option("--unset", metavar="NAME", multiple=True, help="Reset a config to its default.")
@bootstrap_option
def alter(name: str, partitions: int | None, configs: tuple[str, ...], unset: tuple[str, ...], bootstrap: str) -> None:
    """Change a topic's configs, or give it more partitions."""
    changes: dict[str, str | None] = {**pairs(configs, "-c"), **dict.fromkeys(unset)}
    if not changes and partitions is None:
        raise click.UsageError("Nothing to change: give --partitions, -c or --unset.")
    with_admin(bootstrap, lambda admin: _alter(admin, name, partitions, changes))
    note(f"Changed topic {name}.")


async def _alter(admin: Admin, name: str, partitions: int | None, changes: dict[str, str | None]) -> None:
    from penstock.client.admin import ResourceType

    await find_topic(admin, name)
    if changes:
        await alter_configs(admin, ResourceType.TOPIC, name, changes)
    if partitions is not None:
        for error in (await admin.create_partitions({name: partitions})).values():
            if error is not None:
                raise error


@topic.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str) -> None:
    """Delete topics with all their records."""
    with_admin(bootstrap, lambda admin: _delete(admin, names, if_exists))


async def _delete(admin: Admin, names: tuple[str, ...], if_exists: bool) -> None:
    from penstock.wire.errors import UnknownTopicOrPartition

    for name, error in (await admin.delete_topics(names)).items():
        if error is None:
            note(f"Deleted topic {name}.")
        elif not isinstance(error, UnknownTopicOrPartition):
            raise error
        elif not if_exists:
            raise unknown_topic(name, [info.name for info in await admin.list_topics()])


def _summary(info: TopicInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "id": _id_text(info.topic_id),
        "partition_count": len(info.partitions),
        "replication_factor": _replication(info),
        "internal": info.is_internal,
    }


def _replication(info: TopicInfo) -> int:
    return max((len(p.replicas) for p in info.partitions.values()), default=0)


def _id_text(topic_id: bytes) -> str:
    """A topic id as Kafka prints it."""
    import base64

    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
