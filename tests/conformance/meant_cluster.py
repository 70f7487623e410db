"""What a broker of a cluster answers differently, from Apache Kafka and from a broker with its own disk.

Everything else is answered as by a broker with its own disk: an entry takes the place of the one in `meant.ALLOWED`
that is about the same field of the same request.
"""

from __future__ import annotations

import os

from tests.engine.brokers import ENGINE

from .allowed import Allowed, Pair, meant
from .compare import ABSENT
from .meant import ALLOWED

NO_LEADER_YET = (
    "A partition has no leader (LEADER_NOT_AVAILABLE) until a broker starts to lead it. The Metadata request that "
    "creates a topic is answered before that, and the client tries again, as it does with Kafka."
)


def leaderless(topic: str) -> dict[str, Pair]:
    partition = f"response.topics[{topic}].partitions[0]"
    return {
        f"{partition}.error_code": (ABSENT, "LEADER_NOT_AVAILABLE"),
        f"{partition}.leader_id": (ABSENT, -1),
        f"{partition}.leader_epoch": (ABSENT, -1),
    }


CLUSTER: tuple[Allowed, ...] = (
    *meant(NO_LEADER_YET, "metadata/metadata-creates-topics", "metadata: first time", leaderless("auto")),
    *meant(
        NO_LEADER_YET,
        "secured_topics/secured-metadata-creates",
        "metadata as alice: creates",
        leaderless("absent.all"),
    ),
    *meant(
        NO_LEADER_YET,
        "secured_topics/secured-metadata-creates",
        "metadata as creator: creates absent.read",
        leaderless("absent.read"),
    ),
)


def place(entry: Allowed) -> tuple[str, str, str]:
    return entry.scenario, entry.step, entry.path


def in_a_cluster() -> tuple[Allowed, ...]:
    replaced = {place(entry) for entry in CLUSTER}
    return (*(entry for entry in ALLOWED if place(entry) not in replaced), *CLUSTER)


def allowed_here() -> tuple[Allowed, ...]:
    """The differences of the brokers that are compared: of a cluster under `tests.engine`."""
    return in_a_cluster() if ENGINE in os.environ else ALLOWED
