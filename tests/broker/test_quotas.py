"""Quotas at work, in a broker whose time the test owns: who waits, for how long, and who does not."""

from __future__ import annotations

import asyncio

import pytest

from penstock.catalog.contract import replaced_by
from penstock.security.principals import user
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.quota_stage import TOPIC, Client, Stage, settle
from tests.wire.records_field import records_of

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class TestProduce:
    async def test_a_broker_without_quotas_measures_nothing(self) -> None:
        stage = Stage()
        assert not stage.quotas.active
        assert await stage.client().produce() == 0
        assert len(stage.quotas._usage) == 0

    async def test_whoever_exceeds_a_quota_is_answered_at_once_and_told_how_long_to_wait(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        client = stage.client()
        assert await client.produce(10_000) < 100
        assert await client.produce(5000) == pytest.approx(5000, abs=100)
        assert stage.parts.cluster.topic(TOPIC).hosted(0).log.log_end_offset == 2

    async def test_and_is_not_read_until_then(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        client = stage.client()
        throttle_ms = await client.produce(15_000)
        client.post_produce(100)
        await stage.pass_seconds(throttle_ms / 1000 - 0.1)
        assert client.connection.is_muted
        assert stage.parts.cluster.topic(TOPIC).hosted(0).log.log_end_offset == 1
        await stage.pass_seconds(0.2)
        assert await client.take_produced() == pytest.approx(0, abs=200)

    async def test_requests_that_came_with_the_one_too_many_wait_as_well(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        client = stage.client()
        for _ in range(3):
            client.post_produce(15_000)
        assert await client.take_produced() > 0
        assert stage.parts.cluster.topic(TOPIC).hosted(0).log.log_end_offset == 1
        await stage.pass_seconds(6)
        assert await client.take_produced() > 0
        await stage.pass_seconds(16)
        assert await client.take_produced() > 0

    async def test_a_producer_that_wants_no_answer_waits_without_being_told(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        client = stage.client()
        await client.produce(20_000, acks=0)
        await settle()
        assert client.connection.is_muted

    async def test_another_client_goes_on(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        throttled, other = stage.client(), stage.client("other")
        assert await throttled.produce(20_000) > 0
        for _ in range(10):
            assert await other.produce(20_000) == 0

    async def test_the_rate_holds_over_ten_seconds_after_the_first_windows(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 50_000, client_id="app")
        client = stage.client()
        began, sent = stage.world.monotonic(), 0
        while (now := stage.world.monotonic() - began) < 31:
            throttle_ms = await client.produce(20_000)
            sent += 20_000 if 11 <= now < 31 else 0
            await stage.pass_seconds(max(throttle_ms, 1) / 1000)
        assert sent / 20 == pytest.approx(50_000, rel=0.1)

    async def test_a_closed_connection_leaves_no_timer(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id="app")
        client = stage.client()
        assert await client.produce(20_000) > 0
        client.connection.close()
        await stage.pass_seconds(60)
        assert client.connection.closed
        assert not client.connection.is_muted

    async def test_a_muted_connection_is_not_idle(self) -> None:
        stage = Stage({"connections.max.idle.ms": "5000"})
        stage.set("producer_byte_rate", 1000, client_id="app")
        client, idle = stage.client(), stage.client("other")
        throttle_ms = await client.produce(40_000)
        await stage.pass_seconds(20)
        stage.parts.acceptor.sweep()
        assert idle.connection.closed
        assert not client.connection.closed
        await stage.pass_seconds(throttle_ms / 1000)
        stage.parts.acceptor.sweep()
        assert client.connection.closed


class TestWhoShares:
    async def test_the_most_specific_quota_counts_and_a_users_clients_share_it(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, user="alice")
        stage.set("producer_byte_rate", 1_000_000, user="alice", client_id="fast")
        first, second, fast, bob = (stage.client(name) for name in ("one", "two", "fast", "one"))
        for client in (first, second, fast):
            client.connection.principal = user("alice")
        bob.connection.principal = user("bob")
        assert await first.produce(9000) == 0
        assert await second.produce(9000) > 0
        assert await fast.produce(9000) == 0
        assert await bob.produce(90_000) == 0

    async def test_a_default_gives_each_an_allowance_of_its_own(self) -> None:
        stage = Stage()
        stage.set("producer_byte_rate", 1000, client_id=None)
        assert await stage.client("one").produce(9000) == 0
        assert await stage.client("two").produce(9000) == 0
        assert await stage.client("one").produce(9000) > 0

    async def test_a_change_holds_at_once(self) -> None:
        stage = Stage()
        client = stage.client()
        assert await client.produce(90_000) == 0
        stage.set("producer_byte_rate", 1000, client_id="app")
        assert await client.produce(90_000) > 0
        stage.quotas.change({(("client-id", "app"),): replaced_by({})})
        assert not stage.quotas.active
        assert await stage.client().produce(90_000) == 0


class TestFetch:
    async def test_a_fetch_that_exceeds_the_quota_is_empty_and_the_next_one_gets_the_records(self) -> None:
        stage = Stage()
        client = stage.client()
        for _ in range(20):
            await client.produce(1000)
        stage.set("consumer_byte_rate", 1000, client_id="app")
        first = await client.fetch()
        assert first.throttle_time_ms == 0
        assert 5000 < len(records(first)) <= 10_000
        throttled = await client.fetch(9)
        assert throttled.throttle_time_ms > 0
        assert throttled.responses == []
        assert client.connection.is_muted
        await stage.pass_seconds(throttled.throttle_time_ms / 1000)
        again = await client.fetch(9)
        assert len(records(again)) > 0

    async def test_a_batch_larger_than_can_be_saved_up_gets_through_in_the_end(self) -> None:
        stage = Stage()
        client = stage.client()
        await client.produce(100_000)
        stage.set("consumer_byte_rate", 1000, client_id="app")
        assert len(records(await client.fetch())) > 99_000
        assert (await client.fetch()).throttle_time_ms > 90_000

    async def test_a_wait_for_more_than_the_quota_allows_ends_with_what_there_is(self) -> None:
        stage = Stage()
        client = stage.client()
        for _ in range(20):
            await client.produce(1000)
        stage.set("consumer_byte_rate", 500, client_id="app")
        assert len(records(await client.fetch(min_bytes=1 << 20, max_wait_ms=60_000))) > 0

    async def test_a_session_that_would_have_been_opened_is_not(self) -> None:
        stage = Stage()
        client = stage.client()
        await client.produce(30_000)
        stage.set("consumer_byte_rate", 1000, client_id="app")
        await client.fetch()
        throttled = await client.fetch(session_epoch=0)
        assert throttled.throttle_time_ms > 0
        assert throttled.session_id == 0
        assert len(stage.parts.fetch_sessions) == 0

    async def test_the_rate_holds_over_ten_seconds_after_the_first_windows(self) -> None:
        stage = Stage()
        client = stage.client()
        for _ in range(40):
            await client.produce(5000)
        stage.set("consumer_byte_rate", 20_000, client_id="app")
        began, read = stage.world.monotonic(), 0
        while (now := stage.world.monotonic() - began) < 31:
            response = await client.fetch()
            read += len(records(response)) if 11 <= now < 31 else 0
            await stage.pass_seconds(max(response.throttle_time_ms, 1) / 1000)
        assert read / 20 == pytest.approx(20_000, rel=0.1)


class TestRequests:
    async def test_a_client_whose_requests_take_too_long_waits_a_window_at_most(self) -> None:
        stage = Stage()
        stage.set("request_percentage", 1, client_id="app")
        work(stage, 0.5)
        client, other = stage.client(), stage.client("other")
        response = await client.wire.ask(m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert response.throttle_time_ms == 1000
        assert client.connection.is_muted
        response = await other.wire.ask(m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert response.throttle_time_ms == 0
        assert not other.connection.is_muted

    async def test_a_hundred_percent_is_the_whole_event_loop(self) -> None:
        stage = Stage()
        stage.set("request_percentage", 100, client_id="app")
        work(stage, 1.0)
        client = stage.client()
        for _ in range(10):
            response = await client.wire.ask(m.MetadataRequest(topics=[]), m.MetadataResponse)
            assert response.throttle_time_ms == 0
        response = await client.wire.ask(m.MetadataRequest(topics=[]), m.MetadataResponse)
        assert response.throttle_time_ms == 1000

    async def test_a_fetch_of_a_client_that_has_to_wait_is_empty(self) -> None:
        stage = Stage()
        client = stage.client()
        await client.produce(1000)
        stage.set("request_percentage", 1, client_id="app")
        work(stage, 1.0)
        await client.wire.ask(m.MetadataRequest(topics=[]), m.MetadataResponse)
        await stage.pass_seconds(1)
        response = await client.fetch()
        assert response.throttle_time_ms == 1000
        assert response.responses == []

    async def test_the_time_of_a_long_poll_counts_each_time_that_it_looks(self) -> None:
        stage = Stage()
        client, producer = stage.client(), stage.client("other")
        stage.set("request_percentage", 20, client_id="app")
        work(stage, 1.5)
        fetch = asyncio.ensure_future(client.fetch(min_bytes=1, max_wait_ms=60_000))
        await settle()
        assert await producer.produce(100) == 0
        await stage.pass_seconds(0.01)
        response = await asyncio.wait_for(fetch, 30)
        assert response.throttle_time_ms == 1000
        assert response.responses == []


class TestMutations:
    async def create(self, client: Client, name: str, partitions: int, version: int) -> tuple[int, int]:
        topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await client.wire.ask(m.CreateTopicsRequest(topics=[topic]), m.CreateTopicsResponse, version)
        return response.topics[0].error_code, response.throttle_time_ms

    async def delete(self, client: Client, name: str, version: int) -> tuple[int, int]:
        request = m.DeleteTopicsRequest(topic_names=[name])
        response = await client.wire.ask(request, m.DeleteTopicsResponse, version)
        return response.responses[0].error_code, response.throttle_time_ms

    async def grow(self, client: Client, name: str, count: int, version: int) -> tuple[int, int]:
        topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = m.CreatePartitionsRequest(topics=[topic])
        response = await client.wire.ask(request, m.CreatePartitionsResponse, version)
        return response.results[0].error_code, response.throttle_time_ms

    async def test_a_new_version_is_refused_once_the_allowance_is_overdrawn(self) -> None:
        stage = Stage()
        stage.set("controller_mutation_rate", 1, client_id="app")
        client = stage.client()
        assert await self.create(client, "a", 13, 7) == (0, 0)
        assert await self.create(client, "b", 1, 7) == (THROTTLED, 2000)
        await stage.pass_seconds(2)
        assert await self.delete(client, "a", 5) == (0, 0)
        assert await self.delete(client, "b", 5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert await self.grow(client, TOPIC, 3, 3) == (THROTTLED, 13_000)

    async def test_an_old_version_is_carried_out_and_throttled(self) -> None:
        stage = Stage()
        stage.set("controller_mutation_rate", 1, client_id="app")
        client = stage.client()
        assert await self.create(client, "a", 13, 5) == (0, 2000)
        await stage.pass_seconds(2)
        assert await self.delete(client, "a", 4) == (0, 13_000)
        await stage.pass_seconds(13)
        assert await self.grow(client, TOPIC, 3, 2) == (0, 2000)
        assert stage.parts.cluster.topic(TOPIC).partition_count == 3

    async def test_a_topic_that_may_not_be_created_by_asking_is_unknown(self) -> None:
        stage = Stage()
        stage.set("controller_mutation_rate", 1, client_id="app")
        client = stage.client()
        assert await self.create(client, "a", 13, 7) == (0, 0)
        topic = m.MetadataRequest.MetadataRequestTopic(name="new")
        request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=True)
        response = await client.wire.ask(request, m.MetadataResponse)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await stage.pass_seconds(3)
        response = await client.wire.ask(request, m.MetadataResponse)
        assert response.topics[0].error_code == 0


async def test_what_was_throttled_is_counted() -> None:
    stage = Stage()
    stage.set("producer_byte_rate", 1000, client_id="app")
    throttle_ms = await stage.client().produce(20_000)
    text = stage.parts.metrics.text()
    assert 'penstock_quota_throttled_total{quota="producer_byte_rate"} 1\n' in text
    assert f'penstock_quota_throttle_seconds_total{{quota="producer_byte_rate"}} {throttle_ms / 1000:g}\n' in text


async def test_quotas_outlive_the_broker() -> None:
    stage = Stage()
    stage.set("producer_byte_rate", 1000, client_id="app")
    assert stage.parts.catalog.quotas() == {(("client-id", "app"),): {"producer_byte_rate": 1000}}


def records(response: m.FetchResponse) -> bytes:
    return b"".join(records_of(partition) for topic in response.responses for partition in topic.partitions)


def work(stage: Stage, seconds: float) -> None:
    """Every request takes so much of the event loop's time."""
    clock = [0.0]

    def precise() -> float:
        clock[0] += seconds
        return clock[0]

    stage.world.precise = precise  # type: ignore[method-assign]
