"""The SCRAM mechanisms, with the numbers that stand for them on the wire, and the bounds of their iterations."""

from __future__ import annotations

from enum import IntEnum


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in `sasl.mechanism`, for example SCRAM-SHA-512."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash function, as Python's hashlib has it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


FEWEST_ITERATIONS = 4096
MOST_ITERATIONS = 16384
DEFAULT_ITERATIONS = 4096
"""As Kafka's tools have it. Users whose iterations differ from this can be told from users who do not exist."""
