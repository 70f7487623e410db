"""Well-formed requests with senseless contents: every API answers something or closes, and none of them breaks.

Values are drawn from what the broker knows (topics, groups, its node id) and from the edges of each type, so that
requests get past the first check. A handler that fails logs an error, and that fails the test.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire import schema
from penstock.wire.api import API_TABLE, ApiInfo
from penstock.wire.codec import UnsupportedField
from tests.broker.raw import RawClient, is_alive
from tests.fuzz.fuzzing import DEFAULT_SECONDS, LONG_SECONDS, fuzz

_TEXTS = ["", "t", "u", "g", "h", "m-1", "*", "range", "consumer", "share", "1", "retention.ms", "cleanup.policy", "__consumer_offsets", "no such", "ü" * 50, "x" * 300]  # fmt: skip # noqa: E501
_EDGES = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}
_BATCHES = [
    bytes(build_batch([(1_700_000_000_000, b"k", b"v", [])])),
    bytes(build_batch([(0, None, b"v", [("h", None)])], producer_id=1, producer_epoch=0, base_sequence=0)),
    bytes(build_batch([(0, b"k", None, [])], producer_id=2, producer_epoch=1, base_sequence=3, transactional=True)),
    b"",
    b"not a batch",
]
# A request that waits is answered when its time is up; a test has less.
_SHORT_MS = {"max_wait_ms", "timeout_ms", "rebalance_timeout_ms", "session_timeout_ms", "transaction_timeout_ms"}


class Requests:
    """Random requests of one API."""

    def __init__(self, source: random.Random, topic_ids: list[bytes]) -> None:
        self._source = source
        self._topic_ids = topic_ids

    def draw(self, info: ApiInfo) -> tuple[m.Message, int]:
        version = self._source.randint(info.request.SCHEMA.versions.low, info.max_version)
        made = self._struct(info.request, info.request.SCHEMA, info.request, version)
        assert isinstance(made, m.Message)
        return made, version

    def _struct(self, top: type[m.Message], struct_: schema.Struct, cls: type[m.Struct], version: int) -> m.Struct:
        values: dict[str, Any] = {}
        for field in struct_.fields:
            if version not in field.versions and version not in field.tagged:
                continue
            if self._source.random() < 0.15:
                continue
            if version in field.nullable and self._source.random() < 0.15:
                values[field.name] = None
            elif field.is_array:
                count = self._source.choice([0, 1, 1, 1, 2, 3])
                values[field.name] = [self._value(top, field, version) for _ in range(count)]
            else:
                values[field.name] = self._value(top, field, version)
        return cls(**values)

    def _value(self, top: type[m.Message], field: schema.Field, version: int) -> object:
        choose = self._source.choice
        if field.struct is not None:
            return self._struct(top, field.struct, getattr(top, field.struct.name), version)
        if field.name in _SHORT_MS:
            return choose([0, 1, 20, -1])
        match field.type:
            case "string":
                return choose(_TEXTS)
            case "bool":
                return choose([True, False])
            case "uuid":
                return choose([bytes(16), *self._topic_ids, self._source.randbytes(16)])
            case "bytes":
                return choose([b"", b"\0\0\0\0\0\0", self._source.randbytes(30)])
            case "records":
                return choose(_BATCHES)
            case "float64":
                return choose([0.0, -1.0, 1e308, float("nan")])
        bits = _EDGES[field.type]
        edges = [2**bits - 1, -(2**bits) if bits in (7, 15, 31, 63) else 0]
        return choose([0, 0, 0, 1, 1, 2, 3, 5, *([-1, -2] if edges[1] else [])] * 3 + edges)


class Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(self.format(record))


@pytest.fixture
def errors() -> Iterator[Errors]:
    handler = Errors()
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def fuzz_a_broker(seconds: float, errors: Errors) -> None:
    with Broker({"transaction.max.timeout.ms": 1000}) as broker:
        broker.create_topic("t", partitions=2)
        broker.create_topic("u", cleanup_policy="compact")
        with RawClient(broker.port) as client:
            answered = client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
            served = [API_TABLE[key.api_key] for key in answered.api_keys]
            described = client.ask(m.MetadataRequest(), m.MetadataResponse, 12)
            topic_ids = [topic.topic_id for topic in described.topics]

        def one_conversation(source: random.Random) -> None:
            requests = Requests(source, topic_ids)
            sent = []
            with RawClient(broker.port) as client:
                for _ in range(5):
                    message, version = requests.draw(source.choice(served))
                    try:
                        client.post(message, version)
                    except UnsupportedField:
                        continue
                    except ConnectionError:
                        break
                    sent.append((message, version))
                # ApiVersions at the end is answered when everything before it was, in order; but a request that
                # waits for others may hold it up, and one that cannot be answered closes the connection.
                try:
                    client.post(m.ApiVersionsRequest(), 0)
                    client.drain(0.05)
                except ConnectionError:
                    pass
            assert errors.seen == [], f"{errors.seen[0]}\nafter {sent}"

        fuzz(seconds, one_conversation)
        assert is_alive(broker.port)
    assert errors.seen == []


def test_no_request_breaks_a_handler(errors: Errors) -> None:
    fuzz_a_broker(DEFAULT_SECONDS * 2, errors)


@pytest.mark.long
@pytest.mark.timeout(LONG_SECONDS + 120)
def test_no_request_breaks_a_handler_for_long(errors: Errors) -> None:
    fuzz_a_broker(LONG_SECONDS, errors)
