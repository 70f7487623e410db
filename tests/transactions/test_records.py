from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.transactions.metadata import NO_PRODUCER_EPOCH, TransactionMetadata, TransactionVersion
from penstock.transactions.records import key_of, metadata_of, transactional_id_of, value_of
from penstock.transactions.states import TransactionState

TV_0, TV_1, TV_2 = TransactionVersion

OPEN = TransactionMetadata(
    "my-txn",
    1000,
    5,
    60_000,
    TransactionState.ONGOING,
    frozenset({("t1", 0), ("t1", 3)}),
    start_timestamp_ms=1_700_000_000_000,
    last_update_timestamp_ms=1_700_000_000_007,
    previous_producer_id=1000,
    client_version=TV_2,
)

# Laid out by hand from the published schema.
KEY = "0000" + "0006" + b"my-txn".hex()
NUMBERS = "00000000000003e8" + "0005" + "0000ea60" + "01"
TIMES = "0000018bcfe56807" + "0000018bcfe56800"
VALUE_V0 = "0000" + NUMBERS + "00000001" + "0002" + b"t1".hex() + "00000002" + "00000000" + "00000003" + TIMES
VALUE_V1 = (
    "0001" + NUMBERS + "02" + "03" + b"t1".hex() + "03" + "00000000" + "00000003" + "00" + TIMES
    + "02" + "0008" + "00000000000003e8" + "0202" + "0002"
)  # fmt: skip


def test_the_key_is_kafkas() -> None:
    assert key_of("my-txn").hex() == KEY
    assert transactional_id_of(bytes.fromhex(KEY)) == "my-txn"


def test_the_value_is_kafkas_in_both_versions() -> None:
    assert value_of(OPEN, TV_2).hex() == VALUE_V1
    assert value_of(OPEN, TV_0).hex() == VALUE_V0


def test_an_idle_entry_has_null_partitions() -> None:
    empty = TransactionMetadata("my-txn", 1000, 0, 60_000)
    assert value_of(empty, TV_0)[2 + 15 :][:4].hex() == "ffffffff"


def test_an_old_record_is_read_without_the_later_fields() -> None:
    meta = metadata_of("my-txn", bytes.fromhex(VALUE_V0))
    assert meta is not None
    assert (meta.previous_producer_id, meta.next_producer_id, meta.client_version) == (-1, -1, TV_0)
    assert meta.partitions == OPEN.partitions


@pytest.mark.parametrize("key", ["0001" + KEY[4:], "ffff" + KEY[4:]])
def test_a_record_of_an_unknown_type_is_skipped(key: str) -> None:
    assert transactional_id_of(bytes.fromhex(key)) is None


def test_a_value_of_a_newer_version_is_skipped() -> None:
    assert metadata_of("my-txn", bytes.fromhex("0002" + VALUE_V1[4:])) is None


metadata = st.builds(
    TransactionMetadata,
    transactional_id=st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 32767),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in TransactionState if state != TransactionState.EMPTY]),
    partitions=st.frozensets(st.tuples(st.text("abc._-", min_size=1), st.integers(0, 2**31 - 1)), max_size=8),
    start_timestamp_ms=st.integers(-1, 2**62),
    last_update_timestamp_ms=st.integers(-1, 2**62),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    last_producer_epoch=st.just(NO_PRODUCER_EPOCH),  # not kept by the log
    client_version=st.sampled_from(TransactionVersion),
)


@given(metadata)
def test_what_is_written_is_read_back(meta: TransactionMetadata) -> None:
    assert transactional_id_of(key_of(meta.transactional_id)) == meta.transactional_id
    assert metadata_of(meta.transactional_id, value_of(meta, TV_1)) == meta


def test_a_long_transactional_id_is_a_transactional_id() -> None:
    assert transactional_id_of(key_of("t" * 300)) == "t" * 300
