"""The loads of one broker with the whole engine of production: its records on files, and its catalog in SQLite."""

from __future__ import annotations

import re

from penstock.simulation.machine import WholeMachine
from tests.simulation.administration import Configs, Rules
from tests.simulation.faults import ON_CATALOGS
from tests.simulation.logins import Logins
from tests.simulation.machines import OnFiles

_OF_SQLITE = re.compile(r"database or disk is full")


class OnWholeMachine(OnFiles):
    """What loads need to know of a machine whose catalog is in SQLite."""

    world: WholeMachine
    kinds = (*OnFiles.kinds, *ON_CATALOGS, *ON_CATALOGS, *ON_CATALOGS)

    @classmethod
    def make_world(cls, seed: int) -> WholeMachine:
        return WholeMachine(seed, cls.configs(seed), cls.security_protocol(seed))

    def expects(self, error: str) -> bool:
        return super().expects(error) or bool(_OF_SQLITE.search(error))


class FileConfigs(OnWholeMachine, Configs):
    """`configs`, kept in SQLite: the broker is killed and loses power in the middle of changes, whose disk is full."""

    name = "files-configs"


class FileRules(OnWholeMachine, Rules):
    """`acls`, kept in SQLite."""

    name = "files-acls"


class FileLogins(OnWholeMachine, Logins):
    """`logins`, whose users are kept in SQLite."""

    name = "files-logins"
