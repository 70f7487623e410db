"""Brokers that answer what a test tells them, for what one real broker cannot be brought to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from penstock.wire import messages as m
from penstock.wire.api import API_TABLE
from penstock.wire.codec import decode, encode_parts
from penstock.wire.frames import SIZE, parse_request_header, response_frame

Answer = Callable[[m.Message, int], m.Message]
M = TypeVar("M", bound=m.Message)
TOPIC_ID = b"scripted topic-1"


class ScriptedBroker:
    """One node. `answers[m.FetchRequest]` is called with each such request and its version; `seen` keeps them all."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.port = 0
        self.answers: dict[type[m.Message], Answer] = {m.ApiVersionsRequest: _api_versions}
        self.seen: list[m.Message] = []
        self.hung_up = False
        self.answers_again = asyncio.Event()
        """Cleared, it accepts connections and answers nothing, as a process does that was stopped."""
        self.answers_again.set()
        self.tasks: set[asyncio.Task[None]] = set()

    def requests(self, kind: type[M]) -> list[M]:
        return [request for request in self.seen if isinstance(request, kind)]

    def hang_up(self, request: m.Message, version: int) -> m.Message:
        """An answer that closes the connection instead."""
        self.hung_up = True
        raise ConnectionError

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self.tasks.add(task)
        try:
            while True:
                (size,) = SIZE.unpack(await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                header, position = parse_request_header(frame)
                request_class = cast("type[m.Message]", getattr(m, f"{API_TABLE[header.api_key].name}Request"))
                request = decode(request_class, frame[position:], header.api_version)
                self.seen.append(request)
                await self.answers_again.wait()
                answer = self.answers[request_class](request, header.api_version)
                parts = encode_parts(answer, header.api_version)
                for part in response_frame(parts, header.api_key, header.api_version, header.correlation_id):
                    writer.write(cast(bytes, part))
                await asyncio.sleep(0.005)  # a broker that answers at once would starve the test's own loop
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()


def _api_versions(request: m.Message, version: int) -> m.Message:
    keys = [
        m.ApiVersionsResponse.ApiVersion(api_key=info.key, min_version=info.min_version, max_version=info.max_version)
        for info in API_TABLE.values()
    ]
    return m.ApiVersionsResponse(api_keys=keys)


class ScriptedCluster:
    """Nodes 1, 2, … and the topic `t`, whose partitions node 1 leads in leader epoch `epoch`."""

    def __init__(self, nodes: int, partitions: int) -> None:
        self.brokers = [ScriptedBroker(number + 1) for number in range(nodes)]
        self.partitions = partitions
        self.leader = 1
        self.epoch = 5
        self.gone: set[int] = set()
        """Nodes that are not listed any more."""
        for broker in self.brokers:
            broker.answers[m.MetadataRequest] = self._metadata

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.brokers[0].port}"

    def _metadata(self, request: m.Message, version: int) -> m.Message:
        response = m.MetadataResponse
        partitions = [
            response.MetadataResponsePartition(
                partition_index=number, leader_id=self.leader, leader_epoch=self.epoch, replica_nodes=[1], isr_nodes=[1]
            )
            for number in range(self.partitions)
        ]
        return response(
            cluster_id="scripted",
            controller_id=1,
            brokers=[
                response.MetadataResponseBroker(node_id=broker.node_id, host="127.0.0.1", port=broker.port, rack=None)
                for broker in self.brokers
                if broker.node_id not in self.gone
            ],
            topics=[response.MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)],
        )


@asynccontextmanager
async def scripted_cluster(nodes: int = 1, partitions: int = 1) -> AsyncIterator[ScriptedCluster]:
    cluster = ScriptedCluster(nodes, partitions)
    servers = []
    for broker in cluster.brokers:
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield cluster
    finally:
        for server in servers:
            server.close()
        tasks = [task for broker in cluster.brokers for task in broker.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def fetch_response(
    *partitions: m.FetchResponse.PartitionData, session_id: int = 0, error_code: int = 0
) -> m.FetchResponse:
    topics = [m.FetchResponse.FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=list(partitions))]
    return m.FetchResponse(session_id=session_id, error_code=error_code, responses=topics if partitions else [])
