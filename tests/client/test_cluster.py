from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client.cluster import GROUP, Backoff, Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import BrokerUnreachable, Disconnected, IllegalState, RequestTimeout, check
from penstock.client.types import TopicPartition
from penstock.wire import messages as m
from penstock.wire.errors import LeaderNotAvailable, NotCoordinator, UnknownTopicOrPartition
from tests.client.scripted_broker import ScriptedCluster, scripted_cluster


async def test_any_api_can_be_sent_to_any_broker(bootstrap: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as cluster:
        (node,) = cluster.metadata.nodes
        answer = await cluster.request(m.ListGroupsRequest(), m.ListGroupsResponse, node=node)
        assert answer.error_code == 0
        with pytest.raises(BrokerUnreachable, match="broker 77 is not part"):
            await cluster.request(m.ListGroupsRequest(), m.ListGroupsResponse, node=77)


async def test_the_first_address_that_answers_is_taken(bootstrap: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=f"127.0.0.1:1,{bootstrap}")) as cluster:
        assert cluster.metadata.nodes
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1 .*127\.0\.0\.1:2 "):
        await Cluster(ClientConfig(bootstrap_servers="127.0.0.1:1,127.0.0.1:2")).start()


async def test_refreshes_at_the_same_time_share_one_request(bootstrap: str, topic: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as cluster:
        await cluster.refresh([topic])
        before = sum(connection.conversation.correlation_id for connection in cluster._connections.values())
        await asyncio.gather(*(cluster.refresh([topic]) for _ in range(20)))
        after = sum(connection.conversation.correlation_id for connection in cluster._connections.values())
        assert after - before == 1


async def test_retrying_ends_with_the_last_error_when_the_time_is_up(bootstrap: str) -> None:
    attempts = 0

    async def never() -> None:
        nonlocal attempts
        attempts += 1
        raise UnknownTopicOrPartition("still not there")

    async with Cluster(ClientConfig(bootstrap_servers=bootstrap, retry_backoff_ms=5)) as cluster:
        with pytest.raises(UnknownTopicOrPartition, match="still"):
            await cluster.retrying(never, timeout_ms=300)
    assert attempts > 1


async def test_the_last_error_is_told_even_if_the_time_is_up_in_the_middle_of_an_attempt(cluster: Cluster) -> None:
    attempts = 0

    async def fail_then_hang() -> None:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            await asyncio.sleep(3600)
        raise LeaderNotAvailable("none yet")

    with pytest.raises(LeaderNotAvailable, match="none yet"):
        await cluster.retrying(fail_then_hang, timeout_ms=300)
    assert attempts == 2


async def test_an_attempt_that_hangs_is_cut_off(bootstrap: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as cluster:
        with pytest.raises(RequestTimeout):
            await cluster.retrying(lambda: asyncio.sleep(3600), timeout_ms=50)


async def test_an_error_that_will_not_pass_is_raised_at_once(bootstrap: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as cluster:
        attempts = 0

        async def refused() -> None:
            nonlocal attempts
            attempts += 1
            check(29, about="topic 'secret'")

        with pytest.raises(Exception, match="secret"):
            await cluster.retrying(refused, timeout_ms=10_000)
        assert attempts == 1


async def test_a_coordinator_that_moved_is_looked_up_again(bootstrap: str, fresh: Callable[[str], str]) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap, retry_backoff_ms=5)) as cluster:
        refusals = 2

        def check_answer(answer: m.DescribeGroupsResponse) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise NotCoordinator("moved")

        group = fresh("group")
        await cluster.call_coordinator(
            GROUP, group, m.DescribeGroupsRequest(groups=[group]), m.DescribeGroupsResponse, check_answer=check_answer
        )
        assert refusals == 0


async def test_a_partition_that_is_not_there_has_no_leader(bootstrap: str, topic: str) -> None:
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as cluster:
        assert await cluster.leader(TopicPartition(topic, 0)) in cluster.metadata.nodes
        with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-9"):
            await cluster.leader(TopicPartition(topic, 9))


async def test_a_closed_cluster_opens_nothing(bootstrap: str) -> None:
    cluster = Cluster(ClientConfig(bootstrap_servers=bootstrap))
    await cluster.start()
    (node,) = cluster.metadata.nodes
    await cluster.close()
    with pytest.raises(IllegalState, match="closed"):
        await cluster.connection(node)


def test_pauses_double_up_to_a_bound() -> None:
    backoff = Backoff(ClientConfig(retry_backoff_ms=100, retry_backoff_max_ms=1000))
    pauses = [backoff.next_pause() for _ in range(8)]
    expected = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0]
    assert all(0.8 * want <= pause <= 1.2 * want for pause, want in zip(pauses, expected, strict=True))
    backoff.reset()
    assert backoff.next_pause() <= 0.12


class TestSilentBrokers:
    """A broker that is stopped, or cut off, keeps its connections. Every request here has half an hour."""

    @staticmethod
    def client(cluster: ScriptedCluster) -> Cluster:
        half_an_hour = 30 * 60_000
        return Cluster(
            ClientConfig(
                bootstrap_servers=cluster.bootstrap_servers,
                request_timeout_ms=half_an_hour,
                socket_connection_setup_timeout_ms=half_an_hour,
                default_api_timeout_ms=half_an_hour,
            )
        )

    async def test_what_waits_for_one_that_has_left_the_cluster_fails(self) -> None:
        async with scripted_cluster(2) as brokers, self.client(brokers) as client, asyncio.timeout(60):
            silent = brokers.brokers[0]
            await client.request(m.MetadataRequest(), m.MetadataResponse, node=1, channel="used")
            silent.answers_again.clear()
            in_flight = asyncio.create_task(
                client.request(m.MetadataRequest(), m.MetadataResponse, node=1, channel="used")
            )
            connecting = asyncio.create_task(
                client.request(m.MetadataRequest(), m.MetadataResponse, node=1, channel="new")
            )
            asked = len(brokers.brokers[1].requests(m.MetadataRequest))
            while len(brokers.brokers[1].requests(m.MetadataRequest)) < asked + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert not in_flight.done(), "it is still a member, so it may be slow"
            assert not connecting.done()
            brokers.gone = {1}
            with pytest.raises(Disconnected, match="broker 1 has left the cluster"):
                await in_flight
            with pytest.raises(BrokerUnreachable, match="broker 1 has left the cluster"):
                await connecting

    async def test_metadata_and_coordinators_come_from_another(self) -> None:
        async with scripted_cluster(2) as brokers, self.client(brokers) as client, asyncio.timeout(60):
            brokers.brokers[1].answers[m.FindCoordinatorRequest] = lambda request, version: m.FindCoordinatorResponse(
                coordinators=[m.FindCoordinatorResponse.Coordinator(key="g", node_id=2, host="127.0.0.1", port=1)]
            )
            brokers.brokers[0].answers_again.clear()
            brokers.epoch += 1
            await client.refresh(["t"])
            assert client.metadata.leader_epoch(TopicPartition("t", 0)) == brokers.epoch
            assert await client.coordinator(GROUP, "g") == 2

    async def test_one_that_answers_again_is_trusted_again(self) -> None:
        async with scripted_cluster(2) as brokers, self.client(brokers) as client, asyncio.timeout(60):
            silent = brokers.brokers[0]
            silent.answers_again.clear()
            late = asyncio.create_task(client.request(m.MetadataRequest(), m.MetadataResponse, node=1))
            while 1 not in client._silent:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert client._by_trust() == [2, 1]
            silent.answers_again.set()
            await late
            while client._silent:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def test_an_address_of_the_configuration_that_is_no_broker_s_may_be_slow(self) -> None:
        """A load balancer, say: no metadata tells whether it has left."""
        async with scripted_cluster(2) as brokers, asyncio.timeout(60):
            brokers.gone = {1}
            async with self.client(brokers) as client:
                balancer = brokers.brokers[0]
                balancer.answers_again.clear()
                slow = asyncio.create_task(client.request(m.MetadataRequest(), m.MetadataResponse, node=-1))
                while len(brokers.brokers[1].requests(m.MetadataRequest)) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                balancer.answers_again.set()
                await slow

    async def test_one_that_lists_only_others_is_not_asked_again(self) -> None:
        """A broker of a cluster that has lost its lease sends its clients to those that may know more."""
        async with scripted_cluster(2) as brokers, self.client(brokers) as client, asyncio.timeout(60):
            brokers.gone = {1}
            await client.refresh()
            asked = len(brokers.brokers[0].requests(m.MetadataRequest))
            await client.refresh()
            assert len(brokers.brokers[0].requests(m.MetadataRequest)) == asked
            assert brokers.brokers[1].requests(m.MetadataRequest)
