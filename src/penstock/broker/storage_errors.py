"""What clients are told when storage or catalog refuse: a Kafka error that carries the reason."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.catalog.contract import CatalogError, TopicExists
from penstock.storage.contract import LeadershipLost, StorageError
from penstock.wire.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower, TopicAlreadyExists

log = logging.getLogger("penstock.broker")


def error_for_clients(failure: StorageError | CatalogError) -> KafkaError:
    if isinstance(failure, LeadershipLost):
        return NotLeaderOrFollower(str(failure))
    return KafkaStorageError(str(failure))


@contextmanager
def changing(what: str) -> Iterator[None]:
    """Around a change of storage or catalog: a refusal is logged, and raised as the error that the client is told."""
    try:
        yield
    except TopicExists as failure:  # another broker was faster, which is nobody's failure
        raise TopicAlreadyExists(str(failure)) from failure
    except (StorageError, CatalogError) as failure:
        log.error("cannot change %s: %s", what, failure)
        raise error_for_clients(failure) from failure
