"""Writes docs/reference/configs.md from the tables of configs. Run it as `python -m tests.docs.configs_page`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.broker.config.broker import BROKER
from penstock.broker.config.client_metrics import CLIENT_METRICS
from penstock.broker.config.definitions import ConfigType, Definition, Scope
from penstock.broker.config.group import GROUP
from penstock.broker.config.topic import BROKER_SYNONYMS, TOPIC

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configs.md"

_INTRODUCTION = """\
# Configs

Names, types, defaults and bounds are those of Apache Kafka 4.3. Configs that Penstock adds begin with `penstock.`. Set
broker configs with `penstock serve -c NAME=VALUE`, under `[serve.set]` in `penstock.toml`, or in a properties file
(`--properties`). Those that can change at run time, and all configs of topics, groups and client metrics, are set with
`penstock config set` or Kafka's `kafka-configs.sh`:

| changes | meaning |
|---|---|
| at startup | the broker reads it when it starts |
| per broker | while the broker runs, for one broker |
| any time | while the broker runs, for one broker or for all |

A malformed value is refused, and so is a config that promises what Penstock does not do
([compatibility](compatibility.md)). Kafka's other configs are accepted without effect, so that its config files work;
they are listed [below](#accepted-without-effect). The settings of the Python client are on
[its own page](client.md#settings).

This page is generated from the tables in `broker/config` (`python -m tests.docs.configs_page`).
"""
_CHANGES = {Scope.READ_ONLY: "at startup", Scope.PER_BROKER: "per broker", Scope.CLUSTER: "any time"}


def page() -> str:
    topic_rows = [(*_row(each), _stands_in(each.name)) for each in _used(TOPIC.values())]
    return "".join(
        (
            _INTRODUCTION,
            "\n## Broker\n",
            _table(
                ("config", "type", "default", "changes", "meaning"),
                ((*_row(each)[:3], _CHANGES[each.scope], each.documentation) for each in _used(BROKER.values())),
            ),
            "\n## Topic\n\nWhat a topic does not set comes from the broker config in the last column.\n",
            _table(("config", "type", "default", "meaning", "broker config"), topic_rows),
            "\n## Group\n\nWhat a group does not set comes from the broker config `group.` with the same name, if there"
            " is one.\n",
            _table(("config", "type", "default", "meaning"), (_row(each) for each in _used(GROUP.values()))),
            "\n## Client metrics\n\nSubscriptions to what clients report about themselves (KIP-714).\n",
            _table(("config", "type", "default", "meaning"), (_row(each) for each in CLIENT_METRICS.values())),
            "\n## Accepted without effect\n\nOf the broker: ",
            _names(BROKER.values()),
            ".\n\nOf topics: ",
            _names(TOPIC.values()),
            ".\n\nOf groups: ",
            _names(GROUP.values()),
            ".\n",
        )
    )


def _used(definitions: Iterable[Definition]) -> list[Definition]:
    return sorted((each for each in definitions if each.is_used), key=lambda each: each.name)


def _names(definitions: Iterable[Definition]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(each.name for each in definitions if not each.is_used))


def _row(each: Definition) -> tuple[str, str, str, str]:
    kind = "text" if each.type is ConfigType.UNKNOWN else each.type.name.lower()
    default = "" if each.default is None else f"`{each.default}`" if each.default else "empty"
    return f"`{each.name}`", kind, default, each.documentation


def _stands_in(name: str) -> str:
    return ", ".join(f"`{broker}`" for broker, _ in BROKER_SYNONYMS.get(name, ()))


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n" + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
