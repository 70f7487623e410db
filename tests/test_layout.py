"""Every module of Penstock has tests that a newcomer finds: a test module of its name, or the one that is listed here.

`make coverage` checks besides that tests really reach each module (`.ci/check-coverage`).
"""

from __future__ import annotations

from pathlib import Path

import penstock

SOURCE = Path(penstock.__file__).parent
TESTS = Path(__file__).parent

ELSEWHERE = {
    "cli/backup.py": "operation/test_make_backup.py",
    "operation/backup_folder.py": "operation/test_make_backup.py",
    "operation/restore_backup.py": "operation/test_make_backup.py",
    "adoption/image.py": "adoption/test_release.py",
    "adoption/kafka_folder.py": "adoption/test_plan.py",
    "catalog/leases.py": "broker/test_membership.py",
    "catalog/postgres_incarnation.py": "operation/test_backups.py",
    "catalog/postgres_summary.py": "operation/test_status.py",
    "catalog/postgres_whole.py": "operation/test_import_export.py",
    "catalog/read_ahead.py": "catalog/test_postgres_prefetched.py",
    "cli/adopt.py": "adoption/test_adopt.py",
    "cli/cluster_adopt_backup.py": "operation/test_backups.py",
    "cli/cluster_check.py": "cli/test_cluster.py",
    "cli/cluster_drain.py": "cli/test_cluster.py",
    "cli/cluster_export.py": "operation/test_import_export.py",
    "cli/cluster_import.py": "operation/test_import_export.py",
    "cli/cluster_options.py": "cli/test_cluster.py",
    "cli/cluster_status.py": "cli/test_cluster.py",
    "cli/config_changes.py": "cli/test_config.py",
    "cli/console.py": "cli/test_console_process.py",
    "cli/consume.py": "cli/test_produce_consume.py",
    "cli/data_folder.py": "cli/test_user.py",
    "cli/docs.py": "cli/test_main.py",
    "cli/group_parts.py": "cli/test_group.py",
    "cli/group_resets.py": "cli/test_group.py",
    "cli/group_waits.py": "cli/test_group.py",
    "cli/lookups.py": "cli/test_topic.py",
    "cli/mirror_tasks.py": "spark/test_mirror.py",
    "cli/offsets.py": "cli/test_group.py",
    "cli/options.py": "cli/test_main.py",
    "cli/output.py": "cli/test_topic.py",
    "cli/passwords.py": "cli/test_user.py",
    "cli/pipeline.py": "spark/test_pipelines.py",
    "cli/produce.py": "cli/test_produce_consume.py",
    "cli/redrive.py": "cli/test_share.py",
    "cli/release.py": "adoption/test_release.py",
    "cli/running.py": "cli/test_produce_consume.py",
    "cli/share_window.py": "cli/test_share.py",
    "cli/watching.py": "cli/test_share.py",
    "console/app.py": "console/test_routes.py",
    "console/decoders/avro.py": "console/test_decoders.py",
    "console/decoders/bounds.py": "console/test_decoders.py",
    "console/decoders/internal.py": "console/test_decoders.py",
    "console/decoders/protobuf.py": "console/test_decoders.py",
    "console/login_check.py": "console/test_logins.py",
    "console/held_back.py": "console/test_transactions.py",
    "console/monitoring.py": "console/test_readings.py",
    "console/pages/access.py": "console/test_access.py",
    "console/pages/clients.py": "console/test_routes.py",
    "console/pages/cluster.py": "console/test_cluster.py",
    "console/pages/groups.py": "console/test_groups.py",
    "console/pages/login.py": "console/test_logins.py",
    "console/pages/messages.py": "console/test_messages.py",
    "console/pages/overview.py": "console/test_overview.py",
    "console/pages/pipelines.py": "console/test_pipelines.py",
    "console/pages/queues.py": "console/test_queues.py",
    "console/pages/topics.py": "console/test_topics.py",
    "console/pages/transactions.py": "console/test_transactions.py",
    "console/readers.py": "console/test_searching.py",
    "console/resets.py": "console/test_groups.py",
    "console/run.py": "console/test_logins.py",
    "console/session.py": "console/test_questions.py",
    "console/web.py": "console/test_routes.py",
    "groups/classic/group.py": "groups/classic/test_protocol.py",
    "groups/classic/states.py": "groups/classic/test_protocol.py",
    "groups/consumer/classic_members.py": "groups/consumer/test_migration.py",
    "groups/consumer/group.py": "groups/consumer/test_protocol.py",
    "groups/consumer/member.py": "groups/consumer/test_protocol.py",
    "groups/consumer/target.py": "groups/consumer/test_protocol.py",
    "groups/describe.py": "groups/consumer/test_protocol.py",
    "groups/offset_store.py": "groups/test_offsets.py",
    "groups/replay.py": "groups/test_group_model.py",
    "groups/settings.py": "groups/test_group_model.py",
    "groups/shard.py": "groups/test_group_model.py",
    "groups/share/group.py": "groups/share/test_protocol.py",
    "groups/state.py": "groups/test_group_model.py",
    "log/cleaner/filtering.py": "log/cleaner/test_rounds.py",
    "log/cleaner/jobs.py": "log/cleaner/test_rounds.py",
    "log/cleaner/key_map.py": "log/cleaner/test_rounds.py",
    "log/cleaner/keys.py": "log/cleaner/test_rounds.py",
    "log/cleaner/transactions.py": "log/cleaner/test_rounds.py",
    "log/errors.py": "log/test_partition.py",
    "log/lookup.py": "log/test_partition.py",
    "log/results.py": "log/test_partition.py",
    "mirror/failures.py": "mirror/test_run.py",
    "operation/export.py": "operation/test_import_export.py",
    "operation/folder.py": "operation/test_import_export.py",
    "operation/import_.py": "operation/test_import_export.py",
    "queues/transitions.py": "queues/test_share_partition.py",
    "records/arrow_kernel.py": "records/test_arrow.py",
    "records/arrow_rows.py": "records/test_arrow.py",
    "security/operations.py": "security/test_authorizer.py",
    "simulation/bucket.py": "simulation/test_remote.py",
    "simulation/door.py": "simulation/test_scenarios.py",
    "simulation/links.py": "simulation/test_cluster.py",
    "simulation/machine.py": "simulation/test_files.py",
    "simulation/node.py": "simulation/test_cluster.py",
    "spark/control.py": "spark/test_worker.py",
    "spark/delta.py": "spark/test_tables.py",
    "spark/failures.py": "spark/test_worker.py",
    "spark/folder.py": "spark/test_load.py",
    "spark/forked.py": "spark/test_forking.py",
    "spark/parquet_files.py": "spark/test_tables.py",
    "spark/planning.py": "spark/test_progress.py",
    "spark/postgres.py": "spark/test_tables.py",
    "spark/session.py": "spark/test_load.py",
    "spark/sink.py": "spark/test_transactions.py",
    "spark/source.py": "spark/test_stream.py",
    "storage/compaction.py": "storage/test_contract.py",
    "storage/objects/key_space.py": "storage/objects/test_sweep.py",
    "storage/objects/loading.py": "storage/objects/test_takeover.py",
    "storage/objects/log.py": "storage/test_contract.py",
    "storage/objects/log_starts.py": "storage/objects/test_storage.py",
    "storage/objects/memory_commit_log.py": "storage/objects/test_commit_log.py",
    "storage/objects/postgres_commit_log.py": "storage/objects/test_commit_log.py",
    "storage/objects/postgres_layouts.py": "storage/objects/test_commit_log.py",
    "testing/callable_broker.py": "testing/test_plugin.py",
    "testing/faults.py": "testing/test_broker.py",
    "wire/acls.py": "catalog/test_contract.py",
    "wire/config_resources.py": "catalog/test_contract.py",
    "wire/error_codes.py": "wire/test_errors.py",
}
"""Modules whose tests are those of what uses them."""

MODULES = sorted(
    path.relative_to(SOURCE).as_posix()
    for path in SOURCE.rglob("*.py")
    if path.name != "__init__.py" and "_examples" not in path.parts
)


def own(module: str) -> str:
    folder, _, name = module.rpartition("/")
    return f"{folder}/test_{name}" if folder else f"test_{name}"


def test_every_module_has_tests() -> None:
    missing = {module: ELSEWHERE.get(module, own(module)) for module in MODULES}
    missing = {module: tests for module, tests in missing.items() if not (TESTS / tests).is_file()}
    assert not missing, "write these tests, or say in ELSEWHERE which tests are those of the module"


def test_what_is_listed_is_there_and_has_no_tests_of_its_own() -> None:
    assert not set(ELSEWHERE) - set(MODULES), "these modules are gone: remove them from ELSEWHERE"
    doubled = [module for module in ELSEWHERE if (TESTS / own(module)).is_file()]
    assert not doubled, "these modules have tests of their own: remove them from ELSEWHERE"
