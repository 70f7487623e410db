"""The Python client of Penstock, for asyncio; it works with every Apache Kafka cluster too.

    from penstock.client import Admin, Consumer, Producer, ShareConsumer

`penstock.client.sync` has the same names for programs without asyncio. Nothing is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.accumulator import Delivery as Delivery
    from penstock.client.admin import Admin as Admin
    from penstock.client.admin import NewTopic as NewTopic
    from penstock.client.admin import ResourceType as ResourceType
    from penstock.client.assignors import Assignor as Assignor
    from penstock.client.assignors import MemberSubscription as MemberSubscription
    from penstock.client.batches import RecordBatch as RecordBatch
    from penstock.client.cluster import Cluster as Cluster
    from penstock.client.consumer import Consumer as Consumer
    from penstock.client.errors import AuthenticationFailed as AuthenticationFailed
    from penstock.client.errors import BrokerUnreachable as BrokerUnreachable
    from penstock.client.errors import CommitFailed as CommitFailed
    from penstock.client.errors import IllegalState as IllegalState
    from penstock.client.errors import LogTruncation as LogTruncation
    from penstock.client.errors import TlsFailed as TlsFailed
    from penstock.client.errors import UsageError as UsageError
    from penstock.client.membership import RebalanceListener as RebalanceListener
    from penstock.client.producer import Producer as Producer
    from penstock.client.security import Token as Token
    from penstock.client.share_acknowledgements import AcknowledgeType as AcknowledgeType
    from penstock.client.share_consumer import ShareConsumer as ShareConsumer
    from penstock.client.share_worker import Reject as Reject
    from penstock.client.transactions import ConsumerGroupMetadata as ConsumerGroupMetadata
    from penstock.client.types import ConsumerRecord as ConsumerRecord
    from penstock.client.types import OffsetAndMetadata as OffsetAndMetadata
    from penstock.client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from penstock.client.types import OffsetSpec as OffsetSpec
    from penstock.client.types import RecordMetadata as RecordMetadata
    from penstock.client.types import SubscriptionPattern as SubscriptionPattern
    from penstock.client.types import TopicPartition as TopicPartition
    from penstock.wire.errors import KafkaError as KafkaError

_HOMES = {
    "AcknowledgeType": "penstock.client.share_acknowledgements",
    "AuthenticationFailed": "penstock.client.errors",
    "Reject": "penstock.client.share_worker",
    "ShareConsumer": "penstock.client.share_consumer",
    "Admin": "penstock.client.admin",
    "Assignor": "penstock.client.assignors",
    "BrokerUnreachable": "penstock.client.errors",
    "Cluster": "penstock.client.cluster",
    "CommitFailed": "penstock.client.errors",
    "Consumer": "penstock.client.consumer",
    "ConsumerGroupMetadata": "penstock.client.transactions",
    "ConsumerRecord": "penstock.client.types",
    "Delivery": "penstock.client.accumulator",
    "IllegalState": "penstock.client.errors",
    "KafkaError": "penstock.wire.errors",
    "LogTruncation": "penstock.client.errors",
    "MemberSubscription": "penstock.client.assignors",
    "NewTopic": "penstock.client.admin",
    "OffsetAndMetadata": "penstock.client.types",
    "OffsetAndTimestamp": "penstock.client.types",
    "OffsetSpec": "penstock.client.types",
    "Producer": "penstock.client.producer",
    "RebalanceListener": "penstock.client.membership",
    "RecordBatch": "penstock.client.batches",
    "RecordMetadata": "penstock.client.types",
    "ResourceType": "penstock.client.admin",
    "SubscriptionPattern": "penstock.client.types",
    "TlsFailed": "penstock.client.errors",
    "Token": "penstock.client.security",
    "TopicPartition": "penstock.client.types",
    "UsageError": "penstock.client.errors",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock.client' has no attribute {name!r}")
    return getattr(import_module(home), name)
