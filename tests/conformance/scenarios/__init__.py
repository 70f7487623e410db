"""The conversations, by family. A scenario names the API it is about and is held once for each version of that API."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from ..conversation import Conversation
from ..kio_codec import kio_versions

Play = Callable[[Conversation], None]


class Stage(Enum):
    """The broker that a conversation is held with."""

    OPEN = auto()
    SECURED = auto()
    """It authenticates its clients and authorizes their requests."""
    RECEIVING = auto()
    """It receives the metrics of clients (KIP-714)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    family: str
    api: str
    play: Play
    versions: tuple[int, ...]
    alone: bool
    """Changes something that all conversations see, so its versions are not held at the same time."""
    stage: Stage

    @property
    def secured(self) -> bool:
        return self.stage is Stage.SECURED

    @property
    def title(self) -> str:
        return f"{self.family}/{self.name}"


_registered: dict[str, Scenario] = {}


def scenario(
    api: str,
    *,
    only: tuple[int, ...] = (),
    least: int = 0,
    most: int = 1000,
    alone: bool = False,
    secured: bool = False,
    receives: bool = False,
) -> Callable[[Play], Play]:
    """Registers a function as a scenario about `api`, for all versions that Apache Kafka 4.3.1 answers, or fewer."""

    def register(play: Play) -> Play:
        versions = only or tuple(v for v in kio_versions(api) if least <= v <= min(most, LAST.get(api, most)))
        name = play.__name__.replace("_", "-")
        if name in _registered:
            raise ValueError(f"two scenarios are named {name}")
        stage = Stage.SECURED if secured else Stage.RECEIVING if receives else Stage.OPEN
        _registered[name] = Scenario(name, play.__module__.rsplit(".", 1)[1], api, play, versions, alone, stage)
        return play

    return register


secured_scenario = partial(scenario, secured=True)

# Where kio has the schema of a version that Apache Kafka 4.3.1 does not answer.
LAST = {"init_producer_id": 5}


def all_scenarios() -> dict[str, Scenario]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _registered
