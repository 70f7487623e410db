"""All scenarios, by name."""

from __future__ import annotations

from tests.simulation.cluster_queues import (
    ClusterBuriedQueues,
    ClusterCommittedQueues,
    ClusterDelayedQueues,
    ClusterQueues,
)
from tests.simulation.clusters import (
    ClusterConsumerGroups,
    ClusterCopying,
    ClusterGroups,
    ClusterMigration,
    ClusterStaticMembers,
    ClusterStreams,
    ClusterTransactions,
    ClusterZombies,
)
from tests.simulation.copying import Copying
from tests.simulation.groups import ClockJumps, ConsumerGroups, Groups, Migration, StaticMembers
from tests.simulation.machines import (
    FileFollowed,
    FileGroups,
    FileQueues,
    FileRot,
    FileSegments,
    FileStreams,
    FileTransactions,
)
from tests.simulation.queue_services import (
    BuriedQueues,
    CommittedQueues,
    DelayedQueues,
    ParkedQueues,
    UnreadableQueues,
)
from tests.simulation.queues import FlushedQueues, Queues
from tests.simulation.scenario import Scenario
from tests.simulation.streams import PowerCuts, PowerCutsAtSyncs, Streams, Transactions
from tests.simulation.zombies import Zombies

SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each
    for each in (
        Streams,
        Transactions,
        Zombies,
        PowerCuts,
        PowerCutsAtSyncs,
        Copying,
        Queues,
        FlushedQueues,
        ParkedQueues,
        BuriedQueues,
        DelayedQueues,
        CommittedQueues,
        UnreadableQueues,
        Groups,
        ConsumerGroups,
        Migration,
        ClockJumps,
        StaticMembers,
        FileStreams,
        FileFollowed,
        FileRot,
        FileSegments,
        FileTransactions,
        FileQueues,
        FileGroups,
        ClusterStreams,
        ClusterTransactions,
        ClusterZombies,
        ClusterCopying,
        ClusterGroups,
        ClusterConsumerGroups,
        ClusterMigration,
        ClusterStaticMembers,
        ClusterQueues,
        ClusterBuriedQueues,
        ClusterDelayedQueues,
        ClusterCommittedQueues,
    )
}

SEEDS = {
    "streams": 60,
    "transactions": 40,
    "zombies": 20,
    "power-cuts": 30,
    "power-cuts-at-syncs": 30,
    "exactly-once": 30,
    "queues": 60,
    "queues-flushed": 40,
    "queues-parked": 40,
    "queues-dead-letters": 30,
    "queues-delayed": 20,
    "queues-read-committed": 20,
    "queues-unreadable": 20,
    "groups": 40,
    "groups-848": 40,
    "migration": 30,
    "clock-jumps": 20,
    "static-members": 30,
    "files-streams": 40,
    "files-followed": 20,
    "files-rot": 10,
    "files-segments": 30,
    "files-transactions": 20,
    "files-queues": 20,
    "files-groups": 10,
    "cluster-streams": 40,
    "cluster-transactions": 20,
    "cluster-zombies": 10,
    "cluster-exactly-once": 20,
    "cluster-groups": 10,
    "cluster-groups-848": 10,
    "cluster-migration": 10,
    "cluster-static-members": 10,
    "cluster-queues": 20,
    "cluster-queues-dead-letters": 10,
    "cluster-queues-delayed": 10,
    "cluster-queues-read-committed": 10,
}
"""How many seeds of each the default tests run."""
