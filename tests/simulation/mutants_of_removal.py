"""Mutants of what takes records away, and of what an administrator changes."""

from __future__ import annotations

from penstock.broker import quotas
from penstock.broker.durability import Durability
from penstock.broker.gate import Gate
from penstock.broker.handlers.acls import AclHandlers
from penstock.broker.handlers.client_quotas import ClientQuotaHandlers
from penstock.broker.share.live import LiveSharePartition
from penstock.broker.topic_manager import TopicManager
from penstock.log import partition
from penstock.log.cleaner import rounds
from tests.simulation.administration import Configs, Rules
from tests.simulation.clusters import ClusterQuotas, ClusterRules
from tests.simulation.machines import FileCompacting, FileTrimmedQueues, FileTrimming
from tests.simulation.mutant import Mutant
from tests.simulation.quotas import Quotas

REMOVAL = [
    Mutant(
        "start-before-the-disk",
        "DeleteRecords is confirmed before it is on disk where the log begins",
        FileTrimming,
        Durability,
        "when_each_start_is_settled",
        "if not logs:",
        "if True:",
    ),
    Mutant(
        "one-segment-too-many",
        "retention by size drops one segment more than it may",
        FileTrimming,
        partition,
        "expired_by_size",
        "if excess < size or excess <= 0:",
        "if excess <= 0:",
    ),
    Mutant(
        "cleaned-not-synced",
        "a cleaned segment takes the place of others before it is on disk",
        FileCompacting,
        rounds.CleanedSegmentWriter,
        "finish",
        "portable.datasync(self._file.fd)",
        "",
    ),
    Mutant(
        "aborted-replaces-committed",
        "compaction drops a record for a later one that was aborted",
        FileCompacting,
        rounds,
        "build_key_map",
        "elif not transactions.data_batch(header) and",
        "elif (transactions.data_batch(header) or True) and",
    ),
    Mutant(
        "window-stays-behind",
        "a queue does not follow where its log begins",
        FileTrimmedQueues,
        LiveSharePartition,
        "_follow_log",
        "if self._move_start():",
        "if False:",
    ),
    Mutant(
        "rules-only-added",
        "an access rule that is deleted holds until the next start",
        Rules,
        Gate,
        "change_rules",
        "self.authorizer.remove(removed)",
        "",
    ),
    Mutant(
        "rules-deleted-by-hearsay",
        "a broker deletes the access rules that it knows of, not those that there are",
        ClusterRules,
        AclHandlers,
        "_delete",
        "if acl_filter.matches(rule)]",
        "if acl_filter.matches(rule) and rule in self._gate.authorizer]",
    ),
    Mutant(
        "quotas-by-hearsay",
        "a broker writes all quotas of an entity as it knows them",
        ClusterQuotas,
        ClientQuotaHandlers,
        "alter_client_quotas",
        "partial(_altered, requested.ops)",
        "partial(lambda known, found: known, _altered(requested.ops, self._quotas.entities.get(entity, {})))",
    ),
    Mutant(
        "quota-without-effect",
        "a changed quota has no effect until the next start",
        Quotas,
        quotas.Quotas,
        "change",
        "self.apply(self._catalog.quotas())",
        "",
    ),
    Mutant(
        "config-without-effect",
        "a changed config of a topic is shown, and has no effect until the next start",
        Configs,
        TopicManager,
        "_apply_configs",
        "",
        "",
    ),
]
