"""The errors of the client, in two families.

*The broker refused a request*, or could not be reached: a `penstock.wire.errors.KafkaError`, one class per Kafka error
code, with `retriable` saying whether the same call may succeed later. The client retries those itself until its
timeout, and then raises the last one.

*The call was wrong*: a `UsageError`, which says what to do instead. It is never retried.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from penstock.client.types import TopicPartition
from penstock.wire.errors import ErrorCode, KafkaError, Network, RequestTimedOut, SaslAuthenticationFailed, error_class


class UsageError(Exception):
    """A call or setting that cannot work; the message says what to do instead."""


class IllegalState(UsageError):
    """The call does not fit the state that the object is in (not started, already closed, no transaction open…)."""


class BrokerUnreachable(Network):
    """No TCP connection to any of the addresses could be made: is a broker running there?"""


class TlsFailed(KafkaError):
    """The TLS handshake with a broker failed: the message says why. It is not retried."""

    code = ErrorCode.NETWORK_EXCEPTION
    retriable = False


class AuthenticationFailed(SaslAuthenticationFailed):
    """The broker does not accept this client's credentials, or there is no token.

    The message says why. It is not retried: change the user, the password, the token or `sasl_mechanism`.
    """


class Disconnected(Network):
    """The broker, or the network, closed the connection while an answer was awaited."""


class RequestTimeout(RequestTimedOut):
    """No answer came within `request_timeout_ms` (or the call's own timeout)."""


class CommitFailed(KafkaError):
    """The group has rebalanced: the partitions of this commit belong to another member.

    Poll more often, or raise `max_poll_interval_ms`, or make the handler faster.
    """

    code = ErrorCode.REBALANCE_IN_PROGRESS


class NoOffsetForPartition(KafkaError):
    """A partition has no committed offset and `auto_offset_reset` is "none"."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncation(KafkaError):
    """A partition has lost records that this consumer had read, and `auto_offset_reset` is "none".

    `position` is the consumer's position, `divergent_offset` the first offset at which the partition holds other
    records now (None if the broker does not know). The records read from there on no longer exist. Seek to continue.
    """

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, tp: TopicPartition, position: int, divergent_offset: int | None) -> None:
        place = "an unknown offset" if divergent_offset is None else f"offset {divergent_offset}"
        super().__init__(
            f"{tp} was truncated at {place}, before the position {position}, and auto_offset_reset is none; "
            f"seek to continue: consumer.seek({tp!r}, {divergent_offset or 0})"
        )
        self.topic_partition = tp
        self.position = position
        self.divergent_offset = divergent_offset


class RecordDeserializationError(Exception):
    """A deserializer raised; `topic`, `partition` and `offset` name the record, `__cause__` is what it raised."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"the record at {topic}-{partition} offset {offset} cannot be deserialized; "
            f"seek past it with consumer.seek(TopicPartition({topic!r}, {partition}), {offset + 1})"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


def kafka_error(code: int, message: str | None = None, about: str = "") -> KafkaError:
    """The exception for an error code in a response, its text led by what it is about."""
    cls = error_class(code)
    text = message or getattr(cls, "what", "") or cls.__name__
    return cls(f"{about}: {text}" if about else text)


def check(code: int, message: str | None = None, about: str = "") -> None:
    """Raise the exception of `code` unless it is 0."""
    if code:
        raise kafka_error(code, message, about)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that `name` was probably meant to be."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None
