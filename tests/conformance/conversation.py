"""A conversation: requests sent to one broker over one or more connections, and the transcript of what came back.

A scenario is a function that takes a `Conversation`. It sends requests, may use what earlier responses said in later
requests, and never asserts: the transcripts of two brokers are compared afterwards, step by step. That a broker closes
the connection, or does not answer, is an answer too.

At a secured broker (`secured`) a connection that bears the name of a user is that user's; one whose name begins with
`raw` has not authenticated; every other is the administrator's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kio.serial.errors import SerialError

from tests.broker.raw import RawClient

from .kio_codec import Json, decode_response, encode_request, kio_versions
from .masks import Mask

ANSWER_TIMEOUT_S = 8.0
SETTLE_TIMEOUT_S = 20.0

Transcript = list[dict[str, Json]]


class ConversationError(Exception):
    """The stage could not be set (a topic did not appear): the scenario itself is broken, or the broker is down."""


class ConnectionLostError(Exception):
    """The broker closed the connection instead of answering."""


class Connection:
    def __init__(self, port: int) -> None:
        self._client = RawClient(port)
        self.send = self._client.send_frame
        self.send_unframed = self._client.send
        self.close = self._client.close

    def receive(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        payload = self._client.read_frame(timeout_s)
        if payload is None:
            raise ConnectionLostError
        return payload


@dataclass(slots=True)
class Posted:
    """A request that was sent and whose response has not been read."""

    api: str
    version: int
    connection: str
    note: str


@dataclass
class Conversation:
    port: int
    scenario: str
    version: int
    transcript: Transcript = field(default_factory=list)
    client_id: str = "conformance"
    passwords: Mapping[str, str] = field(default_factory=dict)
    """Of the users of a secured broker, the administrator first; none at an open one."""

    def __post_init__(self) -> None:
        self._connections: dict[str, Connection] = {}
        self._mask = Mask()
        self._correlation_id = 0

    # --- the conversation ------------------------------------------------------------------------------------------

    def name(self, word: str) -> str:
        """A name of this scenario's own, the same at every broker."""
        return f"{self.scenario}-v{self.version}-{word}"

    def send(
        self,
        api: str,
        body: Mapping[str, Json] | None = None,
        *,
        version: int | None = None,
        on: str = "main",
        note: str = "",
        mine: str = "",
        hidden: Collection[str] = (),
    ) -> dict[str, Json]:
        """Sends, waits for the response, records it masked, returns it unmasked ({} when the connection was closed).

        `mine` names an array of the response of which only the elements with names of this scenario are recorded.
        `hidden` names fields of this response that are the broker's own affair: only that they are there is recorded.
        """
        return self.collect(self.post(api, body, version=version, on=on, note=note), mine=mine, hidden=hidden)

    def post(
        self,
        api: str,
        body: Mapping[str, Json] | None = None,
        *,
        version: int | None = None,
        on: str = "main",
        note: str = "",
    ) -> Posted:
        version = self._fitting(api, version)
        self._correlation_id += 1
        self.connection(on).send(encode_request(api, version, body or {}, self._correlation_id, self.client_id))
        return Posted(api, version, on, note)

    def collect(
        self, posted: Posted, *, timeout_s: float = ANSWER_TIMEOUT_S, mine: str = "", hidden: Collection[str] = ()
    ) -> dict[str, Json]:
        sender = f" as {self._user(posted.connection)}" if self.passwords else ""
        step: dict[str, Json] = {
            "request": f"{posted.api} v{posted.version}{sender}" + (f": {posted.note}" if posted.note else "")
        }
        self.transcript.append(step)
        response: dict[str, Json] = {}
        try:
            payload = self.connection(posted.connection).receive(timeout_s)
            try:
                _, response = decode_response(posted.api, posted.version, payload)
                step["response"] = self._mask.apply(self._only_mine(response, mine), hidden)
            except SerialError:  # kio refuses values that Kafka does send, such as a time of -1
                step["bytes after the correlation id"] = payload[4:].hex()
        except ConnectionLostError:
            step["outcome"] = "connection closed"
            self._drop(posted.connection)
        except TimeoutError:
            step["outcome"] = "no answer"
            self._drop(posted.connection)
        return response

    def send_raw(self, data: bytes, note: str, *, on: str = "raw", timeout_s: float = 3.0) -> None:
        """Bytes as they are; records only how an answer begins, or that the connection was closed."""
        step: dict[str, Json] = {"request": note}
        self.transcript.append(step)
        try:
            self.connection(on).send_unframed(data)
            step["answer"] = self.connection(on).receive(timeout_s)[:8].hex()
        except ConnectionLostError:
            step["outcome"] = "connection closed"
        except TimeoutError:
            step["outcome"] = "no answer"
        self._drop(on)

    def no_answer(self, posted: Posted, note: str = "") -> None:
        """Records that nothing comes: the next request on the connection is answered first."""
        self.transcript.append(
            {"request": f"{posted.api} v{posted.version}" + (f": {note}" if note else ""), "outcome": "unanswered"}
        )

    # --- setting the stage, unrecorded -----------------------------------------------------------------------------

    def quietly(
        self, api: str, body: Mapping[str, Json] | None = None, version: int | None = None, on: str = "stage"
    ) -> dict[str, Json]:
        version = self._fitting(api, version if version is not None else kio_versions(api)[-1])
        connection = self.connection(on)
        connection.send(encode_request(api, version, body or {}, 0, self.client_id))
        return decode_response(api, version, connection.receive())[1]

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic and returns its id once every partition has a leader."""
        entry = {
            "name": topic,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": name, "value": value} for name, value in (configs or {}).items()],
        }
        created = self.quietly("create_topics", {"topics": [entry], "timeout": 10_000}, 7)["topics"][0]
        if created["error_code"] != "NONE":
            raise ConversationError(f"creating {topic}: {created['error_code']} {created['error_message']}")
        return self.wait_for_topic(topic, partitions)

    def wait_for_topic(self, topic: str, partitions: int = 1) -> str:
        def led(answer: Json) -> bool:
            found = answer["topics"][0]
            leaders = sum(p["leader_id"] >= 0 for p in found["partitions"])
            return bool(found["error_code"] == "NONE") and leaders >= partitions

        body = {"topics": [{"name": topic, "topic_id": "0" * 32}], "allow_auto_topic_creation": False}
        answer = self.until(led, "metadata", body, 12)
        parts = [{"partition_index": p["partition_index"], "timestamp": -1} for p in answer["topics"][0]["partitions"]]

        def serves(offsets: Json) -> bool:
            return all(p["error_code"] == "NONE" for p in offsets["topics"][0]["partitions"])

        self.until(serves, "list_offsets", {"replica_id": -1, "topics": [{"name": topic, "partitions": parts}]}, 7)
        topic_id: str = answer["topics"][0]["topic_id"]
        if self.passwords:  # many topics in one answer: by number, two that are answered alike could change places
            self.name_topic_id(topic_id, topic.removeprefix(self.name("")))
        return topic_id

    def name_topic_id(self, topic_id: str, word: str) -> None:
        """Shows this id in the transcript by a word instead of a number."""
        self._mask.learn("topic", topic_id, word)

    def until(
        self, seen: Callable[[Json], bool], api: str, body: Mapping[str, Json], version: int, on: str = "stage"
    ) -> dict[str, Json]:
        """Repeats a request, unrecorded, until its answer satisfies `seen`: brokers apply metadata a moment later."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while True:
            answer = self.quietly(api, body, version, on)
            if seen(answer):
                return answer
            if time.monotonic() > deadline:
                raise ConversationError(f"{api} never showed what the scenario waits for: {answer}")
            time.sleep(0.02)

    def append(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        for data in batches:
            part = {"index": partition, "records": data}
            body = {"acks": 1, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": [part]}]}
            answer = self.quietly("produce", body, 9)["responses"][0]["partition_responses"][0]
            if answer["error_code"] != "NONE":
                raise ConversationError(f"appending to {topic}: {answer}")

    def wait_for_coordinator(self, key: str, kind: int = 0) -> None:
        """Until the coordinator of a group (0), transactional id (1) or share-partition (2) is there and has loaded."""
        body = {"key_type": kind, "coordinator_keys": [key]}
        self.until(lambda answer: answer["coordinators"][0]["error_code"] == "NONE", "find_coordinator", body, 6)
        if kind == 0:
            loading = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
            requested = {"groups": [key]}
            self.until(lambda a: a["groups"][0]["error_code"] not in loading, "describe_groups", requested, 5)
        elif kind == 1:
            loading = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
            requested = {"transactional_ids": [key]}
            self.until(
                lambda a: a["transaction_states"][0]["error_code"] not in loading, "describe_transactions", requested, 0
            )

    def configure_group(self, group: str, settings: Mapping[str, str]) -> None:
        changes = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
        resource = {"resource_type": 32, "resource_name": group, "configs": changes}
        self.quietly("incremental_alter_configs", {"resources": [resource], "validate_only": False}, 1)
        requested = {"resources": [{"resource_type": 32, "resource_name": group, "configuration_keys": list(settings)}]}
        self.until(
            lambda a: {c["name"]: c["value"] for c in a["results"][0]["configs"]} == settings,
            "describe_configs",
            requested,
            4,
        )

    def producer_id(self) -> int:
        """A producer id for an idempotent producer; the first request of all may find the broker still fetching ids."""
        body = {"transactional_id": None, "transaction_timeout": 60_000}
        granted = self.until(lambda answer: answer["error_code"] == "NONE", "init_producer_id", body, 4)
        producer: int = granted["producer_id"]
        return producer

    # --- inside ----------------------------------------------------------------------------------------------------

    def connection(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(self.port)
            if self.passwords and not name.startswith("raw"):
                self._authenticate(self._connections[name], self._user(name))
        return self._connections[name]

    def _user(self, connection: str) -> str:
        if connection.startswith("raw"):
            return "yet unknown"
        return connection if connection in self.passwords else next(iter(self.passwords))

    def _authenticate(self, connection: Connection, user: str) -> None:
        connection.send(encode_request("sasl_handshake", 1, {"mechanism": "PLAIN"}, 0, self.client_id))
        chosen = decode_response("sasl_handshake", 1, connection.receive())[1]
        token = b"\0" + user.encode() + b"\0" + self.passwords[user].encode()
        connection.send(encode_request("sasl_authenticate", 2, {"auth_bytes": token}, 0, self.client_id))
        answer = decode_response("sasl_authenticate", 2, connection.receive())[1]
        if (chosen["error_code"], answer["error_code"]) != ("NONE", "NONE"):
            raise ConversationError(f"{user} cannot log in: {chosen} {answer}")

    def disconnect(self, name: str = "main") -> None:
        self._drop(name)

    def _drop(self, name: str) -> None:
        if name in self._connections:
            self._connections.pop(name).close()

    def close(self) -> None:
        for name in list(self._connections):
            self._drop(name)

    def _fitting(self, api: str, version: int | None) -> int:
        """The version asked for, else the scenario's own."""
        return self.version if version is None else version

    def _only_mine(self, response: dict[str, Json], array: str) -> dict[str, Json]:
        if not array:
            return response
        mine = [
            e for e in response[array] or [] if any(self.name("") in str(v) for v in e.values() if isinstance(v, str))
        ]
        return {**response, array: mine}
