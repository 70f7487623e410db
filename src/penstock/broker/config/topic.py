"""A topic's configs, and the broker's configs that stand in for those which a topic does not set."""

from __future__ import annotations

from penstock.broker.config.definitions import read_table

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000

_TABLE = read_table("""
cleanup.policy list =delete {compact,delete}
    What happens to old segments: delete, compact, or both; empty keeps them forever.
compression.gzip.level int =-1 gzip-level
    Level when compression.type is gzip.
compression.lz4.level int =9 1..17
    Level when compression.type is lz4; 9 is the fast compressor.
compression.type string =producer {uncompressed,zstd,lz4,snappy,gzip,producer}
    The codec in which batches are stored; producer keeps what was sent.
compression.zstd.level int =3 -131072..22
    Level when compression.type is zstd.
delete.retention.ms long =86400000 >=0
    How long a tombstone stays readable after its key was compacted.
errors.deadletterqueue.group.enable bool =false internal
    Whether share groups may write dead letters into the topic.
file.delete.delay.ms long =60000 >=0
    How long the file of a deleted segment is kept for readers that still use it.
flush.messages long =9223372036854775807 >=1
    Number of records after which the log is flushed to the disk.
flush.ms long =9223372036854775807 >=0
    Time after which the log is flushed to the disk.
follower.replication.throttled.replicas list = throttled-replicas
index.interval.bytes int =4096 >=0
    Bytes of log between two entries of the offset index.
internal.segment.bytes int internal
    Same as segment.bytes, without its lower bound, for tests.
leader.replication.throttled.replicas list = throttled-replicas
local.retention.bytes long =-2 >=-2
local.retention.ms long =-2 >=-2
max.compaction.lag.ms long =9223372036854775807 >=1
    Age by which a record must have been compacted.
max.message.bytes int =1048588 >=0
    The largest batch that is accepted, as stored.
message.timestamp.after.max.ms long =3600000 >=0
    How far ahead of the broker's clock a record's timestamp may be.
message.timestamp.before.max.ms long =9223372036854775807 >=0
    How far behind the broker's clock a record's timestamp may be.
message.timestamp.type string =CreateTime {CreateTime,LogAppendTime}
    The timestamp of a record: CreateTime is the producer's, LogAppendTime the broker's.
min.cleanable.dirty.ratio double =0.5 0..1
    Fraction of the log that must be uncompacted before it is compacted.
min.compaction.lag.ms long =0 >=0
    Age below which a record is not compacted.
min.insync.replicas int =1 >=1
    In a cluster with --store, how many replicas must be in sync for acks=all. Records are in the store anyway.
preallocate bool =false
remote.log.copy.disable bool =false
remote.log.delete.on.disable bool =false
remote.storage.enable bool =false
    Only false is accepted: Penstock has no tiered storage.
retention.bytes long =-1
    Size of a partition above which its oldest segments are deleted; -1 means without limit.
retention.ms long =604800000 >=-1
    Age at which segments are deleted; -1 for never.
segment.bytes int =1073741824 >=1048576
    Size at which a new segment is started.
segment.index.bytes int =10485760 >=4
    The largest index of a segment.
segment.jitter.ms long =0 >=0
    The most by which the start of a new segment is randomly delayed.
segment.ms long =604800000 >=1
    Age at which a new segment is started.
unclean.leader.election.enable bool =false
""")

TOPIC = {definition.name: definition for definition in _TABLE}

# For each topic config the broker configs that stand in for it, the one that counts first, with the factor that turns
# the broker's unit into the topic's.
BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
