from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.wire import messages as m


def test_fields_have_kafkas_defaults() -> None:
    request = m.FetchRequest()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.topics == []
    assert request.replica_state == m.FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert m.FetchRequest.FetchTopic().topic_id == bytes(16)
    assert m.CreateTopicsRequest().validate_only is False
    assert m.FetchResponse.PartitionData().records is None
    assert m.ShareFetchResponse.PartitionData().records == b""
    assert m.MetadataRequest().allow_auto_topic_creation is True


def test_defaults_are_made_anew_for_every_instance() -> None:
    first, second = m.FetchRequest(), m.FetchRequest()
    first.topics.append(m.FetchRequest.FetchTopic(topic="t"))
    first.replica_state.replica_id = 9
    assert second.topics == []
    assert second.replica_state.replica_id == -1


def test_messages_are_equal_by_value_and_kind() -> None:
    assert m.HeartbeatRequest(group_id="g") == m.HeartbeatRequest(group_id="g")
    assert m.HeartbeatRequest(group_id="g") != m.HeartbeatRequest(group_id="h")
    snapshot: m.Message = m.ShareSnapshotKey()
    assert snapshot != m.ShareUpdateKey()


def test_a_message_prints_its_fields() -> None:
    assert repr(m.HeartbeatResponse(error_code=27)) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        m.HeartbeatRequest(grup_id="g")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        m.HeartbeatRequest().grup_id = "g"  # type: ignore[attr-defined]


def test_structs_can_be_used_above_their_own_block() -> None:
    result = m.AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=3)
    assert result.partition_index == 1


def test_acronyms_are_words() -> None:
    assert m.MetadataResponse.MetadataResponsePartition(isr_nodes=[1]).isr_nodes == [1]


@pytest.mark.parametrize("name", ["NoSuchRequest", "Fetch", "fetch_request", "FetchRequests"])
def test_an_unknown_message_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(m, name)


def test_importing_the_wire_builds_no_message() -> None:
    """Start-up pays only for the messages that are used."""
    code = (
        "import penstock.wire.frames, penstock.wire.errors\n"
        "from penstock.wire import messages, schema\n"
        "built = [n for n, v in vars(messages).items() if isinstance(v, type) and issubclass(v, messages.Message)]\n"
        "assert built == ['Message'], built\n"
        "assert schema.table.cache_info().currsize == 0\n"
        "messages.HeartbeatRequest\n"
        "assert schema.table.cache_info().currsize == 1\n"
        "import sys\n"
        "assert 'importlib.resources' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
