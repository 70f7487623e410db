"""What a broker asks of a batch that a client produces, in the order in which Kafka asks it.

The order is part of the protocol: it decides which error a client sees when several would do. The checks read the
header and the CRC; records are looked at only where the header cannot tell:

- a compacted topic needs a key in every record;
- a header that claims a timestamp outside the accepted range is not believed: the records decide, and they also give
  the client the list of the ones at fault;
- `message.timestamp.before.max.ms` bounds the smallest timestamp, which no header field states.

Kafka decodes every record here. What that would notice and this does not (a max timestamp that understates, malformed
records behind a valid CRC) harms nobody but the producer that sent it: readers check for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.records.batch import (
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    CorruptBatch,
    WritableBuffer,
    crc_is_valid,
    parse_header,
    patch_max_timestamp,
)
from penstock.records.builder import seal_batch
from penstock.records.codecs import Codec, DecompressionLimit
from penstock.records.record import records_section
from penstock.records.scan import record_heads
from penstock.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnknownServerError,
    UnsupportedCompressionType,
)

FOREVER_MS = 2**63 - 1
_SMALLEST_OLD_LENGTH = 14
_MAGIC_AT = 16
_FIRST_VERSION_WITH_ZSTD = 7
_ERRORS_SHOWN = 3
_CODEC_NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

RecordErrors = list[tuple[int, str]]


class RecordsRejected(InvalidRecord):
    """Records at fault by their index in the batch, as Produce v8 and later report them."""

    def __init__(self, record_errors: RecordErrors) -> None:
        shown = ", ".join(f"RecordError(batchIndex={i}, message='{m}')" for i, m in record_errors[:_ERRORS_SHOWN])
        super().__init__(
            f"One or more records have been rejected due to {len(record_errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        self.record_errors = record_errors


class TimestampsRejected(InvalidTimestamp):
    """As `RecordsRejected`, when at least one of the faults is a timestamp."""

    def __init__(self, record_errors: RecordErrors) -> None:
        super().__init__("One or more records have been rejected due to invalid timestamp")
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """What a topic's configs ask of a produced batch."""

    max_message_bytes: int = 1_048_588
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = FOREVER_MS
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    """The codec batches are stored in; None keeps the producer's."""
    level: int | None = None

    @classmethod
    def from_configs(cls, configs: Mapping[str, object]) -> ProduceRules:
        """Take the rules out of a topic's resolved configs; a name that is missing has Kafka's default."""
        codec_name = str(configs.get("compression.type", "producer"))
        level = configs.get(f"compression.{codec_name}.level")
        return cls(
            max_message_bytes=_int(configs, "max.message.bytes", 1_048_588),
            compacted="compact" in str(configs.get("cleanup.policy", "delete")),
            log_append_time=configs.get("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=_int(configs, "message.timestamp.before.max.ms", FOREVER_MS),
            timestamp_after_max_ms=_int(configs, "message.timestamp.after.max.ms", 3_600_000),
            codec=_CODEC_NAMES.get(codec_name),
            level=level if isinstance(level, int) else None,
        )


def sole_batch(records: Buffer | None, api_version: int) -> BatchHeader:
    """The header of the one batch that a Produce request may carry per partition.

    Bytes behind it that are not a whole batch are not part of it, as in Kafka: the batch is `records[:header.size]`.
    """
    if records is not None:
        try:
            header = parse_header(records)
        except CorruptBatch:
            pass
        else:
            if header.size == len(records) and (header.codec < Codec.ZSTD or api_version >= _FIRST_VERSION_WITH_ZSTD):
                return header
    return _sole_batch_or_error(b"" if records is None else records, api_version)


def validate_produced(
    batch: WritableBuffer, header: BatchHeader, rules: ProduceRules, *, now_ms: int, topic: str, partition: int
) -> tuple[WritableBuffer, BatchHeader]:
    """Check one batch of a client, and give it the timestamps and the codec that the topic wants.

    Returns the batch to append and its header: the ones handed in, patched in place where only timestamps change.
    """
    if header.base_offset:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append to {topic}-{partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    size = header.batch_length + LOG_OVERHEAD
    if size > rules.max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size in the append to {topic}-{partition} is {size} bytes which exceeds the maximum "
            f"configured value of {rules.max_message_bytes})."
        )
    if not crc_is_valid(batch, 0, size):
        raise CorruptMessage(f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic}-{partition}.")
    if (
        header.records_count <= 0
        or header.last_offset_delta + 1 != header.records_count
        or header.attributes & CONTROL
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        raise InvalidRecord(f"{_fault_of_header(header)} in topic partition {topic}-{partition}")
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD:
        # Kafka has no better code for it either: looking the codec up is what fails there.
        raise UnknownServerError(f"Unknown compression type id: {codec}")
    max_timestamp = header.max_timestamp
    if not _header_tells_all(header, rules, now_ms):
        max_timestamp = _validate_records(batch, header, rules, now_ms, f"{topic}-{partition}")
    if rules.log_append_time:
        max_timestamp = now_ms
    if rules.codec is not None and rules.codec != codec:
        batch = _recompressed(batch, header, rules, max_timestamp)
        if len(batch) > rules.max_message_bytes:
            raise MessageTooLarge(
                f"Message batch size is {len(batch)} bytes in append to partition {topic}-{partition} which exceeds "
                f"the maximum configured size of {rules.max_message_bytes}."
            )
    elif max_timestamp != header.max_timestamp or rules.log_append_time != header.is_log_append_time:
        patch_max_timestamp(batch, 0, max_timestamp, rules.log_append_time)
    else:
        return batch, header
    return batch, parse_header(batch)


def _header_tells_all(header: BatchHeader, rules: ProduceRules, now_ms: int) -> bool:
    if rules.compacted:
        return False
    if rules.log_append_time:
        return not header.is_log_append_time
    return header.max_timestamp <= now_ms + rules.timestamp_after_max_ms and rules.timestamp_before_max_ms == FOREVER_MS


def _fault_of_header(header: BatchHeader) -> str:
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        return f"Batch has an invalid offset range: {offsets}"
    if header.records_count <= 0:
        return f"Invalid reported count for record batch: {header.records_count}"
    if header.last_offset_delta + 1 != header.records_count:
        return f"Inconsistent batch offset range {offsets} and count of records {header.records_count}"
    if header.is_control:
        return "Clients are not allowed to write control records"
    return f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"


def _validate_records(
    batch: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int, topic_partition: str
) -> int:
    """Check record by record. Returns the true max timestamp."""
    try:
        heads = record_heads(records_section(batch, 0, header), header.records_count)
    except DecompressionLimit as error:
        raise MessageTooLarge(f"{error} in topic partition {topic_partition}") from None
    except CorruptBatch as error:
        raise InvalidRecord(f"{error} in topic partition {topic_partition}") from None
    errors: RecordErrors = []
    has_timestamp_error = False
    max_timestamp = NO_TIMESTAMP
    for index, (timestamp_delta, offset_delta, has_key) in enumerate(heads):
        timestamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp + timestamp_delta
        max_timestamp = max(max_timestamp, timestamp)
        if rules.compacted and not has_key:
            errors.append(
                (index, f"Compacted topic cannot accept message without key in topic partition {topic_partition}")
            )
        elif fault := _timestamp_fault(header, rules, now_ms, timestamp, offset_delta):
            errors.append((index, fault))
            has_timestamp_error = True
    if has_timestamp_error:
        raise TimestampsRejected(errors)
    if errors:
        raise RecordsRejected(errors)
    if header.is_compressed and any(delta != index for index, (_, delta, _) in enumerate(heads)):
        # Kafka fails on these, too, if less clearly: it reads compressed batches without keys and cannot rebuild them.
        raise InvalidRecord(f"The offsets inside the batch do not count up from 0 in topic partition {topic_partition}")
    return max_timestamp


def _timestamp_fault(header: BatchHeader, rules: ProduceRules, now_ms: int, timestamp: int, offset: int) -> str:
    if not rules.log_append_time and timestamp != NO_TIMESTAMP:
        earliest = now_ms - rules.timestamp_before_max_ms
        latest = now_ms + rules.timestamp_after_max_ms
        if earliest <= timestamp <= latest:
            return ""
        return (
            f"Timestamp {timestamp} of message with offset {offset} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if header.is_log_append_time:
        return (
            f"Invalid timestamp type in message with offset {offset}. Producer should not set timestamp type to "
            "LogAppendTime."
        )
    return ""


def _recompressed(batch: Buffer, header: BatchHeader, rules: ProduceRules, max_timestamp: int) -> WritableBuffer:
    assert rules.codec is not None
    stamped = LOG_APPEND_TIME if rules.log_append_time else 0
    try:
        section = records_section(batch, 0, header)
    except DecompressionLimit as error:
        raise MessageTooLarge(str(error)) from None
    except CorruptBatch as error:
        raise InvalidRecord(str(error)) from None
    return seal_batch(
        [section],
        base_offset=0,
        leader_epoch=header.partition_leader_epoch,
        attributes=rules.codec | stamped | (header.attributes & TRANSACTIONAL),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=header.records_count,
        level=rules.level,
    )


def _sole_batch_or_error(records: Buffer, api_version: int) -> BatchHeader:
    """The rare cases of `sole_batch`: bytes behind the batch, or one of the errors, told apart as Kafka does."""
    request = f"Produce requests with version {api_version}"
    size = _batch_size(records)
    if size is None:
        raise InvalidRecord(f"{request} must have at least one record batch per partition")
    if records[_MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"{request} are only allowed to contain record batches with magic version 2")
    try:
        header = parse_header(records)
    except CorruptBatch as error:
        raise CorruptMessage(str(error)) from None
    if header.codec == Codec.ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionType(f"{request} are not allowed to use ZStandard compression")
    if header.codec > Codec.ZSTD and api_version < _FIRST_VERSION_WITH_ZSTD:
        raise UnknownServerError(f"Unknown compression type id: {header.codec}")
    if _batch_size(memoryview(records)[size:]) is not None:
        raise InvalidRecord(f"{request} are only allowed to contain exactly one record batch per partition")
    return header


def _batch_size(records: Buffer) -> int | None:
    """Size of the first batch, of whatever magic; None when not all of it is there."""
    if len(records) <= _MAGIC_AT:
        return None
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < _SMALLEST_OLD_LENGTH:
        raise CorruptMessage(f"Record size {length} is less than the minimum record overhead ({_SMALLEST_OLD_LENGTH})")
    if records[_MAGIC_AT] > MAGIC:
        raise CorruptMessage(f"Invalid magic found in record: {records[_MAGIC_AT]}")
    size = length + LOG_OVERHEAD
    return size if size <= len(records) else None


def _int(configs: Mapping[str, object], name: str, default: int) -> int:
    value = configs.get(name, default)
    return value if isinstance(value, int) else int(str(value))
