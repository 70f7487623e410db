"""A broker with an authorizer, in memory, and connections of whichever principal a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from penstock.records.builder import build_batch
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.security.principals import parse_principal
from penstock.testing.memory import MemoryBroker, WireClient
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.errors import ErrorCode

R = TypeVar("R", bound=m.Message)

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ROOT = "User:root"
ALICE = "User:alice"
WAIT_S = 20.0


def rule(
    principal: str,
    operation: AclOperation,
    resource: AclResource,
    name: str = CLUSTER_NAME,
    *,
    permission: AclPermission = AclPermission.ALLOW,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(resource, name, principal, operation, permission, host, pattern)


class Client:
    """One connection of a principal. Requests are sent and answered while the broker's loop runs."""

    def __init__(self, broker: GuardedBroker, client: WireClient) -> None:
        self._broker = broker
        self.wire = client

    def ask(self, request: m.Message, response: type[R], version: int | None = None) -> R:
        return self._broker.run(self.wire.ask(request, response, version))

    def post(self, request: m.Message, version: int | None = None) -> None:
        """Send a request whose answer is still to come, and let the broker handle it."""
        self.wire.post(request, version)
        self._broker.settle()

    def take(self, response: type[R]) -> R:
        return self._broker.run(self.wire.take(response))

    @property
    def has_answer(self) -> bool:
        return bool(self.wire.connection.received)


class GuardedBroker:
    """`User:root` is a super user; the others may do what rules allow them."""

    def __init__(self, configs: Mapping[str, object] | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.memory: MemoryBroker
        self._configs = {"authorizer.class.name": STANDARD, "super.users": ROOT, **(configs or {})}

    def __enter__(self) -> Self:
        async def start() -> MemoryBroker:
            broker = MemoryBroker(self._configs)
            await broker.start()
            return broker

        self.memory = self.loop.run_until_complete(start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.loop.run_until_complete(self.memory.stop())
        self.loop.close()

    def run(self, awaitable: Awaitable[R]) -> R:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, WAIT_S))

    def settle(self) -> None:
        """Let everything that is ready happen."""

        async def turns() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def connect(self, principal: str) -> Client:
        connections = self.memory.parts.dispatcher.connections
        before = set(connections)

        async def open_connection() -> WireClient:
            return self.memory.connect()

        client = self.loop.run_until_complete(open_connection())
        (connection,) = connections.keys() - before
        connection.principal = parse_principal(principal)
        return Client(self, client)

    @property
    def root(self) -> Client:
        return self.connect(ROOT)

    def allow(self, *rules: AclBinding) -> None:
        """Add rules as an administrator does."""
        creations = [
            m.CreateAclsRequest.AclCreation(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission,
            )
            for each in rules
        ]
        answer = self.root.ask(m.CreateAclsRequest(creations=creations), m.CreateAclsResponse)
        assert [each.error_code for each in answer.results] == [ErrorCode.NONE] * len(rules)

    def forbid(self, *rules: AclBinding) -> None:
        """Remove rules as an administrator does."""
        filters = [
            m.DeleteAclsRequest.DeleteAclsFilter(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission,
            )
            for each in rules
        ]
        answer = self.root.ask(m.DeleteAclsRequest(filters=filters), m.DeleteAclsResponse)
        assert [len(each.matching_acls) for each in answer.filter_results] == [1] * len(rules)

    def create_topic(self, name: str, partitions: int = 1) -> bytes:
        topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = self.root.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=5000), m.CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE
        return answer.topics[0].topic_id

    def find_coordinator(self, key: str, key_type: int = 0) -> None:
        """Have the coordinator's topic created, as clients do before their first request."""
        request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        answer = self.root.ask(request, m.FindCoordinatorResponse, 4)
        assert answer.coordinators[0].error_code == ErrorCode.NONE

    def write(self, topic: str, values: Iterable[bytes] = (b"value",)) -> None:
        answer = self.root.ask(produce_request(topic, values), m.ProduceResponse, 12)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def produce_request(topic: str, values: Iterable[bytes] = (b"value",)) -> m.ProduceRequest:
    records = build_batch([(1, None, value, []) for value in values])
    return m.ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            m.ProduceRequest.TopicProduceData(
                name=topic, partition_data=[m.ProduceRequest.PartitionProduceData(index=0, records=records)]
            )
        ],
    )
