"""What a broker asks of a produced batch, and which error it answers."""

from __future__ import annotations

import struct

import pytest

from penstock.records.batch import BatchHeader, crc_is_valid, parse_header, write_crc
from penstock.records.builder import NewRecord, build_batch
from penstock.records.codecs import Codec
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import Record, iter_records
from penstock.records.validation import ProduceRules, RecordsRejected, TimestampsRejected, sole_batch, validate_produced
from penstock.wire.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRecord,
    MessageTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
KEYED: list[NewRecord] = [(NOW_MS + i, b"k%d" % i, b"v%d" % i, ()) for i in range(5)]
LOG_APPEND = ProduceRules(log_append_time=True)
COMPACTED = ProduceRules(compacted=True)
DEFAULTS = ProduceRules()


def _validate(batch: bytearray, rules: ProduceRules = DEFAULTS) -> tuple[bytearray, BatchHeader]:
    validated, header = validate_produced(batch, parse_header(batch), rules, now_ms=NOW_MS, topic="t", partition=3)
    assert header == parse_header(validated)
    assert crc_is_valid(validated, 0, len(validated))
    return bytearray(validated), header


def _patched(batch: bytearray, at: int, layout: str, value: int, crc: bool = True) -> bytearray:
    struct.pack_into(layout, batch, at, value)
    if crc:
        write_crc(batch, 0, len(batch))
    return batch


class TestTheOneBatchOfAPartition:
    def test_is_found(self) -> None:
        batch = build_batch(KEYED)
        assert sole_batch(memoryview(batch), 13) == parse_header(batch)

    @pytest.mark.parametrize("records", [None, b"", b"\x00" * 10, bytes(build_batch(KEYED)[:-1])])
    def test_must_be_there_whole(self, records: bytes | None) -> None:
        with pytest.raises(InvalidRecord, match="must have at least one record batch per partition"):
            sole_batch(records, 9)

    def test_must_be_the_only_one(self) -> None:
        with pytest.raises(InvalidRecord, match="exactly one record batch per partition"):
            sole_batch(build_batch(KEYED) * 2, 9)

    def test_may_be_followed_by_a_piece_of_another(self) -> None:
        batch = build_batch(KEYED)
        assert sole_batch(batch + batch[:40], 9).size == len(batch)
        gzip, zstd = build_batch(KEYED, codec=Codec.GZIP), build_batch(KEYED, codec=Codec.ZSTD)
        assert sole_batch(gzip + gzip[:40], 6).codec == Codec.GZIP
        assert sole_batch(zstd + zstd[:40], 7).codec == Codec.ZSTD
        with pytest.raises(UnsupportedCompressionType, match="Produce requests with version 6 are not allowed to use"):
            sole_batch(zstd + zstd[:40], 6)

    def test_names_an_unknown_codec_only_since_version_7(self) -> None:
        batch = _patched(build_batch(KEYED), 21, ">h", 6)
        for records in (batch, batch + batch[:40]):
            assert sole_batch(records, 7).codec == 6
            with pytest.raises(UnknownServerError, match="Unknown compression type id: 6"):
                sole_batch(records, 6)

    @pytest.mark.parametrize("size", [16, 17, 25])
    def test_is_not_there_when_not_even_its_size_can_be_known(self, size: int) -> None:
        with pytest.raises(
            InvalidRecord, match=r"^Produce requests with version 9 must have at least one record batch"
        ):
            sole_batch(build_batch(KEYED)[:size], 9)

    def test_that_says_it_is_larger_than_the_request_is_not_there(self) -> None:
        with pytest.raises(InvalidRecord, match="must have at least one record batch per partition"):
            sole_batch(_patched(build_batch(KEYED), 8, ">i", (1 << 24) + 60, crc=False), 9)

    def test_of_the_smallest_old_size_is_still_one_of_an_old_format(self) -> None:
        old = bytes(8) + (14).to_bytes(4, "big") + bytes(14)
        with pytest.raises(InvalidRecord, match="magic version 2"):
            sole_batch(old, 9)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_of_an_old_format_is_refused(self, magic: int) -> None:
        old = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(17)
        with pytest.raises(InvalidRecord, match="magic version 2"):
            sole_batch(old, 9)

    def test_of_an_unknown_format_is_corrupt(self) -> None:
        with pytest.raises(CorruptMessage):
            sole_batch(_patched(build_batch(KEYED), 16, ">b", 7, crc=False), 9)

    @pytest.mark.parametrize("length", [-1, 0, 13, 20])
    def test_with_an_impossible_length_is_corrupt(self, length: int) -> None:
        with pytest.raises(CorruptMessage):
            sole_batch(_patched(build_batch(KEYED), 8, ">i", length, crc=False), 9)

    def test_uses_zstd_only_since_version_7(self) -> None:
        batch = build_batch(KEYED, codec=Codec.ZSTD)
        assert sole_batch(batch, 7).codec == Codec.ZSTD
        with pytest.raises(UnsupportedCompressionType):
            sole_batch(batch, 6)


class TestTheHeader:
    def test_of_a_good_batch_passes_untouched(self) -> None:
        batch = build_batch(KEYED, codec=Codec.GZIP, producer_id=1, producer_epoch=0, base_sequence=0)
        header = parse_header(batch)
        validated = validate_produced(batch, header, ProduceRules(), now_ms=NOW_MS, topic="t", partition=3)
        assert validated[0] is batch
        assert validated[1] is header

    def test_must_start_at_offset_zero(self) -> None:
        with pytest.raises(InvalidRecord, match="append to t-3 should be 0, but it is 5"):
            _validate(build_batch(KEYED, base_offset=5))

    def test_may_not_exceed_max_message_bytes(self) -> None:
        batch = build_batch(KEYED)
        _validate(batch, ProduceRules(max_message_bytes=len(batch)))
        with pytest.raises(MessageTooLarge, match=f"{len(batch)} bytes which exceeds the maximum configured value"):
            _validate(batch, ProduceRules(max_message_bytes=len(batch) - 1))

    def test_with_a_wrong_crc_is_corrupt(self) -> None:
        batch = build_batch(KEYED)
        batch[-1] ^= 1
        with pytest.raises(CorruptMessage, match="Record is corrupt"):
            _validate(batch)

    @pytest.mark.parametrize(
        ("at", "value", "text"),
        [
            (23, -1, "invalid offset range"),
            (57, 0, "Invalid reported count for record batch: 0"),
            (57, -5, "Invalid reported count for record batch: -5"),
            (57, 4, r"Inconsistent batch offset range \[0, 4\] and count of records 4 in topic partition t-3"),
            (23, 7, "Inconsistent batch offset range"),
        ],
    )
    def test_must_count_its_records_right(self, at: int, value: int, text: str) -> None:
        with pytest.raises(InvalidRecord, match=text):
            _validate(_patched(build_batch(KEYED), at, ">i", value))

    def test_of_a_client_is_no_control_batch(self) -> None:
        with pytest.raises(
            InvalidRecord, match=r"^Clients are not allowed to write control records in topic partition"
        ):
            _validate(end_marker_batch(ControlType.COMMIT, 1, 0, 0, NOW_MS))

    def test_with_a_producer_id_needs_a_sequence(self) -> None:
        with pytest.raises(InvalidRecord, match="Invalid sequence number -1 in record batch with producerId 7"):
            _validate(build_batch(KEYED, producer_id=7, producer_epoch=0))
        with pytest.raises(InvalidRecord, match="Invalid sequence number -1 in record batch with producerId 0"):
            _validate(build_batch(KEYED, producer_id=0, producer_epoch=0))

    def test_of_no_records_at_all_is_refused(self) -> None:
        batch = _patched(_patched(build_batch(KEYED), 57, ">i", 0), 23, ">i", -1)
        with pytest.raises(InvalidRecord, match="invalid offset range"):
            _validate(batch)

    def test_size_is_looked_at_before_the_crc_and_the_crc_before_the_count(self) -> None:
        batch = _patched(build_batch(KEYED), 57, ">i", 4, crc=False)
        with pytest.raises(MessageTooLarge):
            _validate(batch, ProduceRules(max_message_bytes=70))
        with pytest.raises(CorruptMessage):
            _validate(batch)

    def test_that_names_no_codec_is_answered_as_kafka_does(self) -> None:
        with pytest.raises(UnknownServerError):
            _validate(_patched(build_batch(KEYED), 21, ">h", 6))


class TestTimestamps:
    def test_are_the_brokers_on_a_log_append_time_topic(self) -> None:
        batch, header = _validate(build_batch([(5, None, b"a", ())], codec=Codec.LZ4), LOG_APPEND)
        assert header.is_log_append_time
        assert [record.timestamp for record in iter_records(batch)] == [NOW_MS]

    def test_set_by_a_producer_as_log_append_time_are_rejected_there(self) -> None:
        with pytest.raises(TimestampsRejected) as raised:
            _validate(build_batch(KEYED, log_append_time=NOW_MS), LOG_APPEND)
        assert [index for index, _ in raised.value.record_errors] == [0, 1, 2, 3, 4]
        assert raised.value.record_errors[1][1] == (
            "Invalid timestamp type in message with offset 1. Producer should not set timestamp type to LogAppendTime."
        )
        assert raised.value.code == ErrorCode.INVALID_TIMESTAMP

    def test_set_by_a_producer_as_log_append_time_become_create_time_elsewhere(self) -> None:
        _, header = _validate(build_batch(KEYED, log_append_time=NOW_MS))
        assert not header.is_log_append_time

    def test_set_by_a_producer_as_log_append_time_are_those_of_all_its_records(self) -> None:
        old = build_batch([(NOW_MS - HOUR_MS, None, b"a", ())], log_append_time=NOW_MS)
        _, header = _validate(old, ProduceRules(timestamp_before_max_ms=1000))
        assert header.max_timestamp == NOW_MS

    def test_up_to_an_hour_ahead_are_taken(self) -> None:
        latest = build_batch([(NOW_MS + HOUR_MS, None, b"a", ())])
        _validate(latest)
        _validate(latest, ProduceRules(timestamp_before_max_ms=1000))

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
    def test_further_ahead_are_rejected_with_the_records_at_fault(self, codec: Codec) -> None:
        late = (NOW_MS + HOUR_MS + 1, None, b"late", ())
        with pytest.raises(
            TimestampsRejected, match=r"^One or more records have been rejected due to invalid timestamp$"
        ) as raised:
            _validate(build_batch([KEYED[0], late, KEYED[1], late], codec=codec))
        assert [index for index, _ in raised.value.record_errors] == [1, 3]
        assert raised.value.record_errors[0][1] == (
            f"Timestamp {NOW_MS + HOUR_MS + 1} of message with offset 1 is out of range. "
            f"The timestamp should be within [{NOW_MS - (2**63 - 1)}, {NOW_MS + HOUR_MS}]"
        )

    def test_before_the_configured_past_are_rejected(self) -> None:
        rules = ProduceRules(timestamp_before_max_ms=1000)
        _validate(build_batch([(NOW_MS - 1000, None, b"a", ())]), rules)
        with pytest.raises(TimestampsRejected) as raised:
            _validate(build_batch([KEYED[0], (NOW_MS - 1001, None, b"a", ())]), rules)
        assert [index for index, _ in raised.value.record_errors] == [1]

    def test_that_are_missing_are_always_taken(self) -> None:
        _validate(build_batch([(-1, None, b"a", ())]), ProduceRules(timestamp_before_max_ms=1000))

    def test_overstated_by_the_header_are_put_right(self) -> None:
        _, header = _validate(_patched(build_batch(KEYED), 35, ">q", NOW_MS + 10 * HOUR_MS))
        assert header.max_timestamp == NOW_MS + 4


class TestACompactedTopic:
    @pytest.mark.parametrize("codec", list(Codec))
    def test_takes_records_with_keys(self, codec: Codec) -> None:
        batch = build_batch([*KEYED, (NOW_MS, b"", None, ())], codec=codec)
        assert _validate(batch, COMPACTED)[0] == batch

    @pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
    def test_rejects_a_batch_with_a_null_key_and_says_where(self, codec: Codec) -> None:
        batch = build_batch([*KEYED, (NOW_MS, None, b"v", ())], codec=codec)
        with pytest.raises(RecordsRejected, match="due to 1 record errors in total") as raised:
            _validate(batch, COMPACTED)
        assert raised.value.code == ErrorCode.INVALID_RECORD
        assert raised.value.record_errors == [
            (5, "Compacted topic cannot accept message without key in topic partition t-3")
        ]

    def test_shows_the_first_three_faults(self) -> None:
        batch = build_batch([(NOW_MS, None, b"v", ())] * 4)
        with pytest.raises(RecordsRejected) as raised:
            _validate(batch, COMPACTED)
        fault = "message='Compacted topic cannot accept message without key in topic partition t-3'"
        shown = ", ".join(f"RecordError(batchIndex={index}, {fault})" for index in range(3))
        assert raised.value.message == (
            "One or more records have been rejected due to 4 record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )

    def test_rejects_records_that_are_no_records(self) -> None:
        with pytest.raises(InvalidRecord):
            _validate(_patched(build_batch(KEYED), 61, ">b", 0x7E), COMPACTED)

    def test_rejects_a_bomb(self) -> None:
        section = bytes(200 << 20)
        bomb = build_batch([(NOW_MS, b"k", section, ())], codec=Codec.ZSTD)
        with pytest.raises(MessageTooLarge):
            _validate(bomb, COMPACTED)

    def test_rejects_a_compressed_batch_whose_offsets_do_not_count_up(self) -> None:
        with pytest.raises(InvalidRecord, match="do not count up from 0"):
            _validate(build_batch(KEYED, codec=Codec.GZIP, offset_deltas=[0, 0, 0, 0, 4]), COMPACTED)


class TestACodecOfTheTopic:
    @pytest.mark.parametrize("source", list(Codec))
    @pytest.mark.parametrize("target", list(Codec))
    def test_replaces_the_producers(self, source: Codec, target: Codec) -> None:
        original = build_batch(
            KEYED, codec=source, producer_id=3, producer_epoch=1, base_sequence=8, transactional=True
        )
        expected = list(iter_records(original))
        batch, header = _validate(original, ProduceRules(codec=target))
        assert header.codec == target
        assert list(iter_records(batch)) == expected
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 8)
        assert header.is_transactional

    def test_goes_with_log_append_time(self) -> None:
        batch, _ = _validate(build_batch(KEYED), ProduceRules(codec=Codec.ZSTD, level=9, log_append_time=True))
        assert [record.timestamp for record in iter_records(batch)] == [NOW_MS] * 5

    def test_is_used_at_the_level_of_the_topic(self) -> None:
        values = [(NOW_MS, None, b"%d and %d" % (n, n * n), ()) for n in range(500)]
        sizes = [
            len(_validate(build_batch(values), ProduceRules(codec=Codec.GZIP, level=level))[0]) for level in (1, 9)
        ]
        assert sizes[0] > sizes[1]

    def test_may_not_make_the_batch_too_large(self) -> None:
        packed = build_batch([(NOW_MS, None, bytes(5000), ())], codec=Codec.ZSTD)
        with pytest.raises(MessageTooLarge, match="exceeds the maximum configured size of 1000"):
            _validate(packed, ProduceRules(codec=Codec.NONE, max_message_bytes=1000))

    def test_cannot_be_applied_to_garbage(self) -> None:
        batch = build_batch(KEYED, codec=Codec.ZSTD)
        batch[61:65] = b"junk"
        write_crc(batch, 0, len(batch))
        with pytest.raises(InvalidRecord):
            _validate(batch, ProduceRules(codec=Codec.GZIP))


def test_the_rules_come_from_a_topics_configs() -> None:
    assert ProduceRules.from_configs({}) == ProduceRules()
    assert ProduceRules.from_configs(
        {
            "max.message.bytes": 77,
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": 5,
            "message.timestamp.after.max.ms": 6,
            "compression.type": "gzip",
            "compression.gzip.level": 4,
            "compression.zstd.level": 9,
        }
    ) == ProduceRules(
        max_message_bytes=77,
        compacted=True,
        log_append_time=True,
        timestamp_before_max_ms=5,
        timestamp_after_max_ms=6,
        codec=Codec.GZIP,
        level=4,
    )
    assert ProduceRules.from_configs({"compression.type": "uncompressed"}).codec is Codec.NONE
    as_text = {"max.message.bytes": "77", "compression.type": "gzip", "compression.gzip.level": "fast"}
    assert ProduceRules.from_configs(as_text) == ProduceRules(max_message_bytes=77, codec=Codec.GZIP)


def test_records_survive_validation_as_they_were() -> None:
    batch, _ = _validate(build_batch(KEYED), COMPACTED)
    assert list(iter_records(batch)) == [Record(i, t, k, v, []) for i, (t, k, v, _) in enumerate(KEYED)]
