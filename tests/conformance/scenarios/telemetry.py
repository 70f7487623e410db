"""Clients that push their metrics (KIP-714), at a broker that receives them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .configs import CLIENT_METRICS, DELETE, SET

NO_ID = "0" * 32
GZIP, UNKNOWN_CODEC = 1, 9
METRICS = bytes.fromhex("0a00")  # one resource without metrics
_SECRET = ("client_instance_id", "subscription_id")


class Reporting:
    """A conversation about one subscription."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self._made = 0
        # A broker may come with a subscription of its own.
        for name in ("penstock-default",):
            self.alter(name, {"interval.ms": None, "metrics": None, "match": None}, DELETE)

    def alter(self, name: str, configs: Mapping[str, str | None], operation: int = SET) -> None:
        entries = [{"name": key, "config_operation": operation, "value": value} for key, value in configs.items()]
        resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": entries}
        self.talk.quietly("incremental_alter_configs", {"resources": [resource], "validate_only": False})

    def new_id(self) -> str:
        """Each client has an id of its own, so that none is refused for the haste of another."""
        self._made += 1
        return f"{self._made:032x}"

    def subscribe(self, note: str, client: str, *, hidden: tuple[str, ...] = _SECRET) -> dict[str, Json]:
        return self.talk.send(
            "get_telemetry_subscriptions", {"client_instance_id": client}, version=0, note=note, hidden=hidden
        )

    def subscribed(self) -> tuple[str, int]:
        """A client that has subscribed, unrecorded, and the number of its subscription."""
        client = self.new_id()
        answer = self.talk.quietly("get_telemetry_subscriptions", {"client_instance_id": client}, 0)
        return client, int(answer["subscription_id"])

    def push(
        self,
        note: str,
        client: str,
        subscription: int,
        metrics: bytes = METRICS,
        codec: int = 0,
        *,
        terminating: bool = False,
    ) -> None:
        body = {
            "client_instance_id": client,
            "subscription_id": subscription,
            "terminating": terminating,
            "compression_type": codec,
            "metrics": metrics,
        }
        self.talk.send("push_telemetry", body, version=0, note=note)


def _until_subscribed(reporting: Reporting, metrics: int) -> None:
    def seen(answer: Json) -> bool:
        return len(answer["requested_metrics"]) == metrics

    for _ in range(200):
        client = reporting.new_id()
        answer = reporting.talk.quietly("get_telemetry_subscriptions", {"client_instance_id": client}, 0)
        if seen(answer):
            return


@scenario("get_telemetry_subscriptions", receives=True, alone=True)
def subscriptions_of_clients(talk: Conversation) -> None:
    reporting = Reporting(talk)
    _until_subscribed(reporting, 0)
    reporting.subscribe("nobody subscribes to anything", reporting.new_id())
    mine = reporting.new_id()
    reporting.subscribe("keeps an id that it was given", mine, hidden=("subscription_id",))
    reporting.subscribe("asks again too soon", mine)
    reporting.subscribe("without an id", NO_ID)
    name = talk.name("some")
    reporting.alter(name, {"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer.", "interval.ms": "2000"})
    _until_subscribed(reporting, 2)
    reporting.subscribe("two prefixes", reporting.new_id())
    reporting.alter(name, {"metrics": "*"})
    _until_subscribed(reporting, 1)
    reporting.subscribe("everything", reporting.new_id())
    reporting.alter(name, {"match": "client_id=nobody-has-this-name"})
    _until_subscribed(reporting, 0)
    reporting.subscribe("of other clients", reporting.new_id())
    reporting.alter(name, {"metrics": None, "interval.ms": None, "match": None}, DELETE)


@scenario("push_telemetry", receives=True, alone=True)
def pushes_of_clients(talk: Conversation) -> None:
    reporting = Reporting(talk)
    name = talk.name("all")
    reporting.alter(name, {"metrics": "*", "interval.ms": "3600000"})
    _until_subscribed(reporting, 1)
    client, subscription = reporting.subscribed()
    reporting.push("the first", client, subscription)
    reporting.push("again too soon", client, subscription)
    reporting.push("the last one may come at any time", client, subscription, terminating=True)
    reporting.push("after the last one", client, subscription, terminating=True)
    client, subscription = reporting.subscribed()
    reporting.push("compressed", client, subscription, gzip.compress(METRICS, mtime=0), GZIP)
    client, subscription = reporting.subscribed()
    reporting.push("an unknown codec", client, subscription, codec=UNKNOWN_CODEC)
    client, subscription = reporting.subscribed()
    reporting.push("of another subscription", client, subscription + 1)
    client, subscription = reporting.subscribed()
    reporting.push("nothing", client, subscription, b"")
    client, subscription = reporting.subscribed()
    reporting.push("too much", client, subscription, bytes(1_048_577))
    reporting.push("without an id", NO_ID, subscription)
    client, subscription = reporting.subscribed()
    reporting.push("the last one is the first", client, subscription, terminating=True)
    reporting.push("never subscribed", reporting.new_id(), subscription)
    reporting.alter(name, {"metrics": None, "interval.ms": None}, DELETE)
