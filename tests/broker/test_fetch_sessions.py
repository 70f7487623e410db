from __future__ import annotations

import itertools
from typing import Any

import pytest

from penstock.broker.fetch_sessions import EVICTION_MS, FetchSessions
from penstock.wire import messages as m
from penstock.wire.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch

BY_NAME, BY_ID = 12, 13
TOPIC_ID = bytes(range(16))


def request(session_id: int = 0, epoch: int = 0, *partitions: tuple[str, int, int]) -> m.FetchRequest:
    topics = [
        m.FetchRequest.FetchTopic(
            topic=topic,
            topic_id=TOPIC_ID,
            partitions=[m.FetchRequest.FetchPartition(partition=index, fetch_offset=offset)],
        )
        for topic, index, offset in partitions
    ]
    return m.FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def sessions(slots: int = 10) -> FetchSessions:
    ids = itertools.count(1)
    return FetchSessions(slots, lambda: next(ids))


def test_a_first_fetch_opens_a_session_and_a_later_one_names_only_what_changed() -> None:
    table = sessions()
    first = table.context(request(0, 0, ("a", 0, 0), ("a", 1, 0)), BY_NAME, 0)
    assert first.session_id == 1
    assert not first.incremental

    later = table.context(request(1, 1, ("a", 1, 7)), BY_NAME, 0)

    assert later.incremental
    assert {key: p.fetch_offset for key, p in later.partitions.items()} == {("a", 0): 0, ("a", 1): 7}


def test_a_forgotten_partition_is_not_read_any_more() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0), ("a", 1, 0)), BY_NAME, 0)
    forgetting = request(1, 1)
    forgetting.forgotten_topics_data = [m.FetchRequest.ForgottenTopic(topic="a", partitions=[0])]

    assert list(table.context(forgetting, BY_NAME, 0).partitions) == [("a", 1)]


def test_a_session_whose_last_partition_is_forgotten_is_gone() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    forgetting = request(1, 1)
    forgetting.forgotten_topics_data = [m.FetchRequest.ForgottenTopic(topic="a", partitions=[0])]

    assert table.context(forgetting, BY_NAME, 0).session_id == 0
    assert len(table) == 0


def test_what_a_session_asks_for_and_forgets_at_once_is_read_one_last_time() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    forgetting = request(1, 1, ("a", 0, 3))
    forgetting.forgotten_topics_data = [m.FetchRequest.ForgottenTopic(topic="a", partitions=[0])]

    last = table.context(forgetting, BY_NAME, 0)

    assert (last.session_id, list(last.partitions)) == (0, [("a", 0)])
    assert len(table) == 0


def test_a_session_of_nothing_lasts_until_it_is_used() -> None:
    table = sessions()
    assert table.context(request(), BY_NAME, 0).session_id == 1
    assert table.context(request(1, 1), BY_NAME, 0).session_id == 0
    assert len(table) == 0


def test_each_fetch_of_a_session_must_carry_the_next_epoch() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    with pytest.raises(InvalidFetchSessionEpoch):
        table.context(request(1, 2), BY_NAME, 0)
    table.context(request(1, 1), BY_NAME, 0)
    with pytest.raises(InvalidFetchSessionEpoch):
        table.context(request(1, 1), BY_NAME, 0)


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(FetchSessionIdNotFound):
        sessions().context(request(99, 1), BY_NAME, 0)


def test_a_session_by_name_cannot_go_on_by_id() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    with pytest.raises(FetchSessionTopicIdError):
        table.context(request(1, 1), BY_ID, 0)


def test_the_final_epoch_closes_a_session_and_opens_none() -> None:
    table = sessions()
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    assert table.context(request(1, -1, ("a", 0, 0)), BY_NAME, 0).session_id == 0
    assert len(table) == 0


def test_a_full_table_answers_without_a_session_until_one_is_old_enough_to_go() -> None:
    table = sessions(slots=1)
    table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    assert table.context(request(0, 0, ("b", 0, 0)), BY_NAME, EVICTION_MS - 1).session_id == 0
    assert table.context(request(0, 0, ("b", 0, 0)), BY_NAME, EVICTION_MS).session_id == 2
    assert len(table) == 1


def test_an_incremental_response_carries_news_only() -> None:
    table = sessions()
    context = table.context(request(0, 0, ("a", 0, 0)), BY_NAME, 0)
    (partition,) = context.partitions.values()

    def answer(**changes: Any) -> m.FetchResponse.PartitionData:
        return m.FetchResponse.PartitionData(**{"high_watermark": 5, "log_start_offset": 0, **changes})

    assert partition.has_news(answer())
    assert not partition.has_news(answer())
    assert partition.has_news(answer(high_watermark=6))
    assert partition.has_news(answer(high_watermark=6, log_start_offset=1))
    assert partition.has_news(answer(high_watermark=-1, log_start_offset=-1, error_code=3))
    assert partition.has_news(answer(high_watermark=6, log_start_offset=1)), "the recovery is news as well"


def test_a_partition_that_returned_data_comes_last_next_time() -> None:
    table = sessions()
    context = table.context(request(0, 0, ("a", 0, 0), ("b", 0, 0)), BY_NAME, 0)
    assert context.session is not None
    context.session.served(("a", 0))
    assert list(context.session.partitions) == [("b", 0), ("a", 0)]
