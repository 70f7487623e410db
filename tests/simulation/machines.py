"""The loads of one broker on the files of its machine, whose disk tears, fills up, fails and cannot be read."""

from __future__ import annotations

import re

from penstock.simulation.machine import MachineSimulation
from tests.simulation.faults import EVERYWHERE, ON_FILES
from tests.simulation.groups import ConsumerGroups
from tests.simulation.queues import Queues
from tests.simulation.scenario import Scenario
from tests.simulation.streams import Streams, Transactions

_OF_THE_DISK = re.compile(r"Input/output error|No space left on device")


class OnFiles(Scenario):
    """What loads need to know of a machine with files."""

    world: MachineSimulation
    kinds = (*EVERYWHERE, *ON_FILES)

    @classmethod
    def make_world(cls, seed: int) -> MachineSimulation:
        return MachineSimulation(seed, cls.configs(seed))

    def end_offsets(self, topic: str) -> dict[int, int]:
        logs = self.world.broker.parts.storage.logs()
        return {log.partition: log.log_end_offset for log in logs if log.topic == topic}

    def expects(self, error: str) -> bool:
        return bool(_OF_THE_DISK.search(error))


class FileStreams(OnFiles, Streams):
    name = "files-streams"


class FileTransactions(OnFiles, Transactions):
    name = "files-transactions"


class FileQueues(OnFiles, Queues):
    name = "files-queues"


class FileGroups(OnFiles, ConsumerGroups):
    name = "files-groups"
