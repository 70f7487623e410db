from __future__ import annotations

from penstock.client.metadata import Metadata
from penstock.client.types import TopicPartition
from penstock.wire import messages as m

_ID, _OTHER_ID = b"\x01" * 16, b"\x02" * 16


def _answer(epoch: int, leader: int, topic_id: bytes = _ID, error: int = 0) -> m.MetadataResponse:
    partition = m.MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return m.MetadataResponse(
        brokers=[
            m.MetadataResponse.MetadataResponseBroker(node_id=1, host="a", port=1),
            m.MetadataResponse.MetadataResponseBroker(node_id=2, host="b", port=2),
        ],
        topics=[
            m.MetadataResponse.MetadataResponseTopic(
                error_code=error, name="t", topic_id=topic_id, partitions=[] if error else [partition]
            )
        ],
    )


def test_an_older_leader_epoch_does_not_take_a_partition_back() -> None:
    metadata = Metadata()
    metadata.merge(_answer(5, 1), everything=False)
    metadata.merge(_answer(4, 2), everything=False)
    assert metadata.leader(TopicPartition("t", 0)) == 1
    metadata.merge(_answer(6, 2), everything=False)
    assert metadata.leader(TopicPartition("t", 0)) == 2


def test_a_topic_that_was_created_anew_starts_over() -> None:
    metadata = Metadata()
    metadata.merge(_answer(5, 1), everything=False)
    metadata.merge(_answer(0, 2, _OTHER_ID), everything=False)
    assert metadata.leader(TopicPartition("t", 0)) == 2
    assert metadata.names == {_OTHER_ID: "t"}


def test_a_deleted_topic_is_forgotten() -> None:
    metadata = Metadata()
    metadata.merge(_answer(5, 1), everything=False)
    metadata.merge(_answer(0, 0, error=3), everything=False)
    assert "t" not in metadata.topics
    assert metadata.errors == {"t": 3}
    assert metadata.leader(TopicPartition("t", 0)) == -1


def test_a_full_answer_drops_what_it_does_not_list() -> None:
    metadata = Metadata()
    metadata.merge(_answer(5, 1), everything=False)
    metadata.merge(m.MetadataResponse(), everything=True)
    assert not metadata.topics
