"""Every engine that several brokers can share answers alike: the contract of the shared catalog, checked on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from penstock.catalog.contract import CatalogError, CredentialRow, replaced_by
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import (
    BrokerRow,
    HostAndPort,
    Kind,
    LeaderEpoch,
    PartitionRow,
    Placement,
    SharedCatalog,
)
from penstock.catalog.sqlite import SqliteCatalog
from penstock.security.acls import AclBinding
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.config_resources import ResourceType
from tests.catalog.postgres_catalogs import new_schema, open_shared

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
ONE, TWO = Placement(1, (1, 2)), Placement(2, (2, 1))
ENDPOINTS = {"PLAINTEXT": HostAndPort("localhost", 9092), "SECURE": HostAndPort("host.example", 9093)}
RULE = AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
ALICE = CredentialRow("alice", 1, 4096, b"salt", b"stored", b"server")


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SharedCatalog, SharedCatalog]]:
    """The same catalog as two brokers have it open at the same time."""
    if request.param == "memory":
        both = MemoryCatalog()
        yield both, both
        return
    one: SharedCatalog
    two: SharedCatalog
    if request.param == "postgres":
        schema = new_schema()
        one, two = (open_shared(request.getfixturevalue("postgres"), schema) for _ in range(2))
    else:
        one, two = (SqliteCatalog.open(tmp_path / "catalog.sqlite") for _ in range(2))
    yield one, two
    one.close()
    two.close()


def test_a_new_catalog_has_no_brokers_and_no_partitions(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    assert (one.brokers(), one.partitions(), one.version()) == ([], [], 0)
    assert two.changes_since(0) == (0, frozenset())


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        pytest.param(lambda catalog: catalog.create_topic("b", OTHER_ID, 1, {}), {Kind.TOPICS}, id="create"),
        pytest.param(
            lambda catalog: catalog.create_topic("b", OTHER_ID, 1, {}, [ONE]),
            {Kind.TOPICS, Kind.PARTITIONS},
            id="create with placements",
        ),
        pytest.param(
            lambda catalog: catalog.set_partitions(ID, 2, [TWO]), {Kind.TOPICS, Kind.PARTITIONS}, id="set_partitions"
        ),
        pytest.param(
            lambda catalog: catalog.change_topic_configs(ID, replaced_by({"a": "b"})),
            {Kind.TOPICS},
            id="change_topic_configs",
        ),
        pytest.param(lambda catalog: catalog.delete_topic(ID), {Kind.TOPICS, Kind.PARTITIONS}, id="delete_topic"),
        pytest.param(
            lambda catalog: catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "b"})),
            {Kind.CONFIGS},
            id="change_configs",
        ),
        pytest.param(
            lambda catalog: catalog.change_features(replaced_by({"share.version": 1})),
            {Kind.FEATURES},
            id="change_features",
        ),
        pytest.param(lambda catalog: catalog.change_acls([RULE], []), {Kind.ACLS}, id="change_acls"),
        pytest.param(lambda catalog: catalog.delete_acls(lambda rules: rules), {Kind.ACLS}, id="delete_acls"),
        pytest.param(
            lambda catalog: catalog.change_credentials([ALICE], []), {Kind.CREDENTIALS}, id="change_credentials"
        ),
        pytest.param(
            lambda catalog: catalog.change_quotas({(("user", None),): replaced_by({"a": 1.0})}),
            {Kind.QUOTAS},
            id="quotas",
        ),
        pytest.param(lambda catalog: catalog.register_broker(1, "i", None, ENDPOINTS), {Kind.BROKERS}, id="register"),
        pytest.param(lambda catalog: catalog.unregister_broker(7, 1), {Kind.BROKERS}, id="unregister"),
        pytest.param(
            lambda catalog: catalog.raise_leader_epochs(1, [LeaderEpoch(ID, 0, 5)]), {Kind.PARTITIONS}, id="epochs"
        ),
    ],
)
def test_a_change_by_one_broker_is_seen_by_the_others_with_what_it_is_about(
    pair: tuple[SharedCatalog, SharedCatalog], change: Callable[[SharedCatalog], object], kinds: set[Kind]
) -> None:
    one, two = pair
    one.create_topic("orders", ID, 1, {}, [ONE])
    one.register_broker(7, "i", None, ENDPOINTS)
    before = two.version()
    assert two.changes_since(before) == (before, frozenset())
    change(one)
    changes = two.changes_since(before)
    # A catalog with leases raises the leader epochs of a broker that registers.
    assert kinds <= changes.kinds <= kinds | ({Kind.PARTITIONS} if kinds == {Kind.BROKERS} else kinds)
    assert changes.version == two.version() == one.version() > before
    assert two.changes_since(changes.version).kinds == frozenset()


def test_all_that_changed_since_a_version_is_seen_at_once(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    one.change_features(replaced_by({"share.version": 1}))
    before = two.version()
    one.change_acls([RULE], [])
    two.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "b"}))
    one.change_acls([], [RULE])
    assert two.changes_since(before).kinds == {Kind.ACLS, Kind.CONFIGS}
    assert Kind.FEATURES in two.changes_since(0).kinds


def test_brokers_that_change_different_configs_of_a_resource_do_not_undo_each_others_changes(
    pair: tuple[SharedCatalog, SharedCatalog],
) -> None:
    one, two = pair
    one.create_topic("orders", ID, 1, {"a": "old", "b": "old", "gone": "old"}, [ONE])
    two.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "old", "b": "old"}))
    assert one.topics() == two.topics()  # from here on neither looks
    one.change_topic_configs(ID, lambda found: {**found, "a": "of one"})
    one.change_configs(ResourceType.GROUP, "g", lambda found: {**found, "a": "of one"})

    def change(found: Mapping[str, str]) -> Mapping[str, str]:
        return {name: value for name, value in {**found, "b": "of two"}.items() if name != "gone"}

    both = {"a": "of one", "b": "of two"}
    assert two.change_topic_configs(ID, change) == two.change_configs(ResourceType.GROUP, "g", change) == both
    assert one.topics()[0].configs == one.config_resources(ResourceType.GROUP)["g"] == both


def test_brokers_that_change_different_quotas_of_an_entity_do_not_undo_each_others_changes(
    pair: tuple[SharedCatalog, SharedCatalog],
) -> None:
    one, two = pair
    entity = (("user", None),)
    assert one.quotas() == two.quotas() == {}  # from here on neither looks
    one.change_quotas({entity: lambda found: {**found, "a": 1.0}})
    two.change_quotas({entity: lambda found: {**found, "b": 2.0}})
    assert one.quotas() == {entity: {"a": 1.0, "b": 2.0}}


def test_features_are_changed_from_the_levels_that_the_other_broker_has_set(
    pair: tuple[SharedCatalog, SharedCatalog],
) -> None:
    one, two = pair
    assert one.features() == two.features() == {}
    one.change_features(replaced_by({"share.version": 0}))
    given: list[dict[str, int]] = []

    def change(found: Mapping[str, int]) -> Mapping[str, int]:
        given.append(dict(found))
        return found

    epoch = one.features_epoch()
    assert two.change_features(change) == epoch
    assert given == [{"share.version": 0}]


def test_a_change_that_is_refused_is_none(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    one.create_topic("orders", ID, 2, {}, [ONE, TWO])
    before = two.version()
    changes: list[Callable[[], object]] = [
        lambda: one.create_topic("orders", OTHER_ID, 1, {}, [ONE]),
        lambda: one.create_topic("payments", OTHER_ID, 2, {}, [ONE]),
        lambda: one.set_partitions(ID, 4, [ONE]),
        lambda: one.set_partitions(ID, 1),
    ]
    for refused in changes:
        with pytest.raises(CatalogError):
            refused()
    assert two.version() == before
    assert len(two.partitions()) == 2
    assert [row.partitions for row in two.topics()] == [2]


def test_brokers_both_change_what_they_share(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    blocks = [catalog.allocate_producer_id_block().start for catalog in (one, two, one)]
    assert blocks == [0, 1000, 2000]
    one.create_topic("orders", ID, 1, {})
    two.change_topic_configs(ID, replaced_by({"a": "b"}))
    assert one.topics()[0].configs == {"a": "b"}


# -- brokers -----------------------------------------------------------------------------------------------------------


def test_a_broker_is_found_under_all_its_addresses(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    epoch_of_two = two.register_broker(2, "second", "rack-a", ENDPOINTS)
    epoch_of_one = one.register_broker(1, "first", None, {})
    assert one.brokers() == [
        BrokerRow(1, epoch_of_one, "first", None, {}, is_live=True),
        BrokerRow(2, epoch_of_two, "second", "rack-a", ENDPOINTS, is_live=True),
    ]


def test_a_broker_that_registers_again_has_a_higher_epoch(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    first = one.register_broker(1, "first", None, ENDPOINTS)
    one.unregister_broker(1, first)
    assert [row.is_live for row in two.brokers()] == [False]
    second = two.register_broker(1, "second", None, {})
    assert second > first
    one.unregister_broker(1, first)
    assert two.brokers() == [BrokerRow(1, second, "second", None, {}, is_live=True)]


# -- partitions --------------------------------------------------------------------------------------------------------


def test_partitions_are_placed_when_a_topic_is_created_and_when_it_grows(
    pair: tuple[SharedCatalog, SharedCatalog],
) -> None:
    one, two = pair
    one.create_topic("orders", ID, 2, {}, [ONE, TWO])
    two.set_partitions(ID, 3, [ONE])
    one.create_topic("of one broker", OTHER_ID, 2, {})
    assert two.partitions() == [
        PartitionRow(ID, 0, 1, 0, (1, 2)),
        PartitionRow(ID, 1, 2, 0, (2, 1)),
        PartitionRow(ID, 2, 1, 0, (1, 2)),
    ]


def test_partitions_go_with_their_topic(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    one.create_topic("orders", ID, 1, {}, [ONE])
    one.create_topic("payments", OTHER_ID, 1, {}, [TWO])
    one.delete_topic(ID)
    assert two.partitions() == [PartitionRow(OTHER_ID, 0, 2, 0, (2, 1))]


def test_only_the_leader_raises_its_epoch_and_never_lowers_it(pair: tuple[SharedCatalog, SharedCatalog]) -> None:
    one, two = pair
    one.create_topic("orders", ID, 2, {}, [ONE, TWO])
    one.raise_leader_epochs(1, [LeaderEpoch(ID, 0, 5), LeaderEpoch(ID, 1, 5), LeaderEpoch(OTHER_ID, 0, 5)])
    one.raise_leader_epochs(1, [LeaderEpoch(ID, 0, 4)])
    assert [row.leader_epoch for row in two.partitions()] == [5, 0]
