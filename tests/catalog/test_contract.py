"""Every engine answers alike: the contract of the catalog, checked on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from penstock.catalog.contract import (
    SECRET_BYTES,
    Catalog,
    CatalogError,
    CredentialRow,
    TopicExists,
    TopicRow,
    UnknownTopic,
    replaced_by,
)
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.postgres import PostgresCatalog
from penstock.catalog.sqlite import SqliteCatalog
from penstock.security.acls import AclBinding
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType
from tests.catalog.postgres_catalogs import new_schema, open_postgres, open_shared

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))
READ_ORDERS = AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
DENY_ALL = AclBinding(
    AclResource.GROUP, "g-", "User:*", AclOperation.ALL, AclPermission.DENY, "10.0.0.1", PatternType.PREFIXED
)
ALICE = CredentialRow("alice", 1, 4096, b"salt", b"stored", b"server")
BOB = ALICE._replace(user="bob")
EVERY_CLIENT_OF_ALICE = (("client-id", None), ("user", "alice"))
EVERYBODY = (("user", None),)

OpenCatalog = Callable[[], Catalog]
Change = Callable[[Catalog], object]


def open_memory() -> OpenCatalog:
    catalog = MemoryCatalog()
    return lambda: catalog


@pytest.fixture(params=["sqlite", "postgres", "shared postgres", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenCatalog]:
    """Opens the engine: a second time on what the first left behind."""
    opened: list[Catalog] = []
    if request.param == "memory":
        open_one = open_memory()
    elif request.param == "sqlite":
        open_one = partial(SqliteCatalog.open, tmp_path / "catalog.sqlite")
    elif request.param == "shared postgres":
        open_one = partial(open_shared, request.getfixturevalue("postgres"), new_schema())
    else:
        open_one = partial(open_postgres, request.getfixturevalue("postgres"), new_schema())

    def open_and_keep() -> Catalog:
        opened.append(open_one())
        return opened[-1]

    yield open_and_keep
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(reopen: OpenCatalog) -> Catalog:
    return reopen()


def let_changes_fail(catalog: Catalog) -> None:
    if isinstance(catalog, MemoryCatalog):
        catalog.refuse_changes("the disk is full")
    elif isinstance(catalog, PostgresCatalog):
        catalog._session.connection().execute("SET default_transaction_read_only = on")
    else:
        assert isinstance(catalog, SqliteCatalog)
        catalog._connection.execute("PRAGMA query_only = ON")


def let_changes_succeed(catalog: Catalog) -> None:
    if isinstance(catalog, MemoryCatalog):
        catalog.accept_changes()
    elif isinstance(catalog, PostgresCatalog):
        catalog._session.connection().execute("SET default_transaction_read_only = off")
    else:
        assert isinstance(catalog, SqliteCatalog)
        catalog._connection.execute("PRAGMA query_only = OFF")


def everything(catalog: Catalog) -> object:
    configs = [catalog.config_resources(each) for each in ResourceType]
    security = catalog.secret(), catalog.acls(), catalog.credentials(), catalog.quotas()
    return catalog.cluster_id, catalog.features(), catalog.features_epoch(), catalog.topics(), configs, security


def test_a_new_catalog_is_empty(catalog: Catalog) -> None:
    assert catalog.cluster_id
    assert catalog.topics() == []
    assert (catalog.features(), catalog.features_epoch()) == ({}, 1)
    assert all(catalog.config_resources(each) == {} for each in ResourceType)
    assert (catalog.acls(), catalog.credentials(), catalog.quotas()) == ([], [], {})


def test_a_cluster_keeps_its_id(catalog: Catalog, reopen: OpenCatalog) -> None:
    cluster_id = catalog.cluster_id
    catalog.close()
    assert reopen().cluster_id == cluster_id


# -- topics ------------------------------------------------------------------------------------------------------------


def test_topics_come_back_by_name_with_their_configs(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.create_topic("orders", ID, 3, {"retention.ms": "5", "cleanup.policy": "compact"})
    catalog.create_topic("a-topic", OTHER_ID, 1, {})
    catalog.close()
    assert reopen().topics() == [
        TopicRow("a-topic", OTHER_ID, 1, {}),
        TopicRow("orders", ID, 3, {"cleanup.policy": "compact", "retention.ms": "5"}),
    ]


def test_names_and_ids_are_taken_once(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "b"})
    with pytest.raises(TopicExists):
        catalog.create_topic("orders", OTHER_ID, 1, {})
    with pytest.raises(TopicExists):
        catalog.create_topic("payments", ID, 1, {})
    assert catalog.topics() == [TopicRow("orders", ID, 1, {"a": "b"})]


@pytest.mark.parametrize(("topic_id", "partitions"), [(ID, 0), (b"short", 1)])
def test_a_topic_without_partitions_or_a_whole_id_is_refused(
    catalog: Catalog, topic_id: bytes, partitions: int
) -> None:
    with pytest.raises(CatalogError):
        catalog.create_topic("orders", topic_id, partitions, {"a": "b"})
    assert catalog.topics() == []


def test_a_topic_grows_and_never_shrinks(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.create_topic("orders", ID, 3, {})
    catalog.set_partitions(ID, 7)
    with pytest.raises(CatalogError, match="'orders' has 7 partitions and cannot shrink to 6"):
        catalog.set_partitions(ID, 6)
    catalog.close()
    assert reopen().topics() == [TopicRow("orders", ID, 7, {})]


def test_a_topics_configs_are_replaced_as_a_whole(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1", "b": "2"})
    catalog.change_topic_configs(ID, replaced_by({"b": "3", "c": ""}))
    catalog.close()
    assert reopen().topics() == [TopicRow("orders", ID, 1, {"b": "3", "c": ""})]


def test_a_deleted_topic_leaves_name_and_id_to_others(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.create_topic("orders", ID, 2, {"a": "1"})
    catalog.create_topic("payments", OTHER_ID, 1, {})
    catalog.delete_topic(ID)
    catalog.close()
    again = reopen()
    assert again.topics() == [TopicRow("payments", OTHER_ID, 1, {})]
    again.create_topic("orders", ID, 1, {})
    assert again.topics()[0] == TopicRow("orders", ID, 1, {})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda catalog: catalog.set_partitions(OTHER_ID, 7), id="set_partitions"),
        pytest.param(
            lambda catalog: catalog.change_topic_configs(OTHER_ID, replaced_by({})), id="change_topic_configs"
        ),
        pytest.param(lambda catalog: catalog.delete_topic(OTHER_ID), id="delete_topic"),
    ],
)
def test_a_topic_that_is_not_there_cannot_be_changed(catalog: Catalog, change: Change) -> None:
    catalog.create_topic("orders", ID, 3, {})
    with pytest.raises(UnknownTopic, match=OTHER_ID.hex()):
        change(catalog)
    assert catalog.topics() == [TopicRow("orders", ID, 3, {})]


# -- configs, features, producer ids -----------------------------------------------------------------------------------


def test_configs_are_kept_by_resource(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.change_configs(ResourceType.BROKER, "1", replaced_by({"message.max.bytes": "100", "log.retention.ms": "6"}))
    catalog.change_configs(ResourceType.BROKER, "", replaced_by({"log.retention.ms": "5"}))
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"share.auto.offset.reset": "earliest"}))
    catalog.close()
    again = reopen()
    assert list(again.config_resources(ResourceType.BROKER).items()) == [
        ("", {"log.retention.ms": "5"}),
        ("1", {"log.retention.ms": "6", "message.max.bytes": "100"}),
    ]
    assert again.config_resources(ResourceType.GROUP) == {"g": {"share.auto.offset.reset": "earliest"}}
    assert again.config_resources(ResourceType.CLIENT_METRICS) == {}


def test_configs_of_a_resource_are_replaced_as_a_whole(catalog: Catalog) -> None:
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "1", "b": "2"}))
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"b": "3"}))
    assert catalog.config_resources(ResourceType.GROUP) == {"g": {"b": "3"}}
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({}))
    catalog.change_configs(ResourceType.GROUP, "never-had-any", replaced_by({}))
    assert catalog.config_resources(ResourceType.GROUP) == {}


def test_a_change_of_configs_is_given_what_is_set_and_answered_with_what_is_set_now(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1", "b": "2"})
    assert catalog.change_topic_configs(ID, lambda found: {**found, "c": "3"}) == {"a": "1", "b": "2", "c": "3"}
    assert catalog.topics()[0].configs == {"a": "1", "b": "2", "c": "3"}
    given: list[Mapping[str, str]] = []

    def change(found: Mapping[str, str]) -> Mapping[str, str]:
        given.append(found)
        return {**found, str(len(found)): "new"}

    for _ in range(2):
        catalog.change_configs(ResourceType.GROUP, "g", change)
    assert given == [{}, {"0": "new"}]
    assert catalog.change_configs(ResourceType.GROUP, "g", replaced_by({})) == {}


def test_a_change_of_configs_that_raises_changes_nothing(catalog: Catalog) -> None:
    def refuse(found: Mapping[str, str]) -> Mapping[str, str]:
        raise ValueError(*found)

    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"b": "2"}))
    before = everything(catalog)
    with pytest.raises(ValueError, match="a"):
        catalog.change_topic_configs(ID, refuse)
    with pytest.raises(ValueError, match="b"):
        catalog.change_configs(ResourceType.GROUP, "g", refuse)
    assert everything(catalog) == before
    assert catalog.change_topic_configs(ID, replaced_by({"a": "2"})) == {"a": "2"}


def test_features_that_were_changed_are_kept_and_their_changes_counted(catalog: Catalog, reopen: OpenCatalog) -> None:
    assert catalog.change_features(replaced_by({"share.version": 0, "group.version": 0})) == 2
    assert catalog.change_features(replaced_by({"share.version": 1})) == 3
    assert catalog.change_features(replaced_by({"share.version": 1})) == 3  # nothing has changed
    catalog.close()
    again = reopen()
    assert (again.features(), again.features_epoch()) == ({"group.version": 0, "share.version": 1}, 3)


def test_producer_ids_are_never_given_twice(catalog: Catalog, reopen: OpenCatalog) -> None:
    assert catalog.allocate_producer_id_block() == range(0, 1000)
    assert catalog.allocate_producer_id_block() == range(1000, 2000)
    catalog.close()
    assert reopen().allocate_producer_id_block() == range(2000, 3000)


# -- changes -----------------------------------------------------------------------------------------------------------


def test_what_was_read_can_be_changed_without_changing_the_catalog(catalog: Catalog) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "1"}))
    catalog.change_features(replaced_by({"share.version": 0}))
    before = everything(catalog)
    catalog.topics()[0].configs["b"] = "2"
    catalog.config_resources(ResourceType.GROUP)["g"]["b"] = "2"
    catalog.features()["share.version"] = 1
    assert everything(catalog) == before


def test_what_was_written_can_be_changed_without_changing_the_catalog(catalog: Catalog) -> None:
    configs = {"a": "1"}
    catalog.create_topic("orders", ID, 1, configs)
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by(configs))
    configs["b"] = "2"
    assert catalog.topics()[0].configs == {"a": "1"}
    assert catalog.config_resources(ResourceType.GROUP) == {"g": {"a": "1"}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda catalog: catalog.create_topic("payments", OTHER_ID, 1, {"a": "1"}), id="create_topic"),
        pytest.param(lambda catalog: catalog.set_partitions(ID, 7), id="set_partitions"),
        pytest.param(
            lambda catalog: catalog.change_topic_configs(ID, replaced_by({"b": "2"})), id="change_topic_configs"
        ),
        pytest.param(lambda catalog: catalog.delete_topic(ID), id="delete_topic"),
        pytest.param(
            lambda catalog: catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"b": "2"})),
            id="change_configs",
        ),
        pytest.param(lambda catalog: catalog.change_features(replaced_by({"share.version": 1})), id="change_features"),
        pytest.param(lambda catalog: catalog.change_acls([DENY_ALL], [READ_ORDERS]), id="change_acls"),
        pytest.param(lambda catalog: catalog.delete_acls(lambda rules: rules), id="delete_acls"),
        pytest.param(lambda catalog: catalog.change_credentials([BOB], [("alice", 1)]), id="change_credentials"),
        pytest.param(lambda catalog: catalog.change_quotas({EVERYBODY: replaced_by({"b": 2.0})}), id="change_quotas"),
        pytest.param(lambda catalog: catalog.allocate_producer_id_block(), id="allocate_producer_id_block"),
    ],
)
def test_a_change_that_fails_changes_nothing_and_can_be_repeated(catalog: Catalog, change: Change) -> None:
    catalog.create_topic("orders", ID, 1, {"a": "1"})
    catalog.change_configs(ResourceType.GROUP, "g", replaced_by({"a": "1"}))
    catalog.change_acls([READ_ORDERS], [])
    catalog.change_credentials([ALICE], [])
    catalog.change_quotas({EVERYBODY: replaced_by({"a": 1.0})})
    before = everything(catalog)
    let_changes_fail(catalog)
    with pytest.raises(CatalogError, match="cannot change the catalog"):
        change(catalog)
    assert everything(catalog) == before
    let_changes_succeed(catalog)
    result = change(catalog)
    assert result == range(1000) if isinstance(result, range) else everything(catalog) != before


# -- security ----------------------------------------------------------------------------------------------------------


def test_a_cluster_keeps_its_secret(catalog: Catalog, reopen: OpenCatalog) -> None:
    secret = catalog.secret()
    assert len(secret) == SECRET_BYTES
    catalog.close()
    assert reopen().secret() == secret


def test_rules_come_back_as_they_were_added(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.change_acls([DENY_ALL, READ_ORDERS], [])
    catalog.change_acls([READ_ORDERS], [])
    catalog.close()
    again = reopen()
    assert again.acls() == [READ_ORDERS, DENY_ALL]
    assert isinstance(again.acls()[0].operation, AclOperation)


def test_a_removed_rule_is_gone_and_one_that_is_absent_is_passed_over(catalog: Catalog) -> None:
    catalog.change_acls([READ_ORDERS], [])
    catalog.change_acls([DENY_ALL], [READ_ORDERS, READ_ORDERS._replace(host="10.0.0.1")])
    assert catalog.acls() == [DENY_ALL]


def test_rules_to_delete_are_chosen_from_those_that_there_are(catalog: Catalog) -> None:
    catalog.change_acls([DENY_ALL, READ_ORDERS], [])
    given: list[list[AclBinding]] = []

    def choose(rules: Sequence[AclBinding]) -> list[AclBinding]:
        given.append(list(rules))
        return [rule for rule in rules if rule == DENY_ALL]

    catalog.delete_acls(choose)
    catalog.delete_acls(choose)
    assert given == [[READ_ORDERS, DENY_ALL], [READ_ORDERS]]
    assert catalog.acls() == [READ_ORDERS]


def test_a_choice_of_rules_that_raises_deletes_none(catalog: Catalog) -> None:
    def refuse(rules: Sequence[AclBinding]) -> list[AclBinding]:
        raise ValueError(rules[0].resource_name)

    catalog.change_acls([READ_ORDERS], [])
    with pytest.raises(ValueError, match="orders"):
        catalog.delete_acls(refuse)
    assert catalog.acls() == [READ_ORDERS]


def test_credentials_are_replaced_by_user_and_mechanism(catalog: Catalog, reopen: OpenCatalog) -> None:
    stronger = ALICE._replace(mechanism=2)
    catalog.change_credentials([ALICE, stronger], [])
    catalog.change_credentials([ALICE._replace(salt=b"new")], [("bob", 1)])
    catalog.close()
    assert reopen().credentials() == [ALICE._replace(salt=b"new"), stronger]


def test_deleted_credentials_are_gone(catalog: Catalog) -> None:
    catalog.change_credentials([ALICE, BOB], [])
    assert catalog.change_credentials([], [("alice", 1), ("alice", 2), ("carol", 1)]) == {("alice", 1)}
    assert [row.user for row in catalog.credentials()] == ["bob"]
    assert catalog.change_credentials([ALICE], [("alice", 1)]) == frozenset()


def test_quotas_are_replaced_per_entity(catalog: Catalog, reopen: OpenCatalog) -> None:
    catalog.change_quotas(
        {
            EVERY_CLIENT_OF_ALICE: replaced_by({"producer_byte_rate": 1024.0}),
            EVERYBODY: replaced_by({"request_percentage": 50.5}),
        }
    )
    catalog.change_quotas({EVERY_CLIENT_OF_ALICE: replaced_by({"consumer_byte_rate": 2.0})})
    catalog.close()
    assert reopen().quotas() == {
        EVERY_CLIENT_OF_ALICE: {"consumer_byte_rate": 2.0},
        EVERYBODY: {"request_percentage": 50.5},
    }


def test_a_change_of_quotas_is_given_what_is_set_and_made_for_all_entities_or_none(catalog: Catalog) -> None:
    def double(found: Mapping[str, float]) -> Mapping[str, float]:
        return {name: 2 * value for name, value in found.items()} or {"producer_byte_rate": 1.0}

    def refuse(found: Mapping[str, float]) -> Mapping[str, float]:
        raise ValueError(*found)

    catalog.change_quotas({EVERYBODY: double})
    catalog.change_quotas({EVERYBODY: double, EVERY_CLIENT_OF_ALICE: double})
    both = {EVERYBODY: {"producer_byte_rate": 2.0}, EVERY_CLIENT_OF_ALICE: {"producer_byte_rate": 1.0}}
    assert catalog.quotas() == both
    with pytest.raises(ValueError, match="producer_byte_rate"):
        catalog.change_quotas({EVERYBODY: double, EVERY_CLIENT_OF_ALICE: refuse})
    assert catalog.quotas() == both


def test_an_entity_without_quotas_is_forgotten(catalog: Catalog) -> None:
    catalog.change_quotas({EVERYBODY: replaced_by({"producer_byte_rate": 1.0})})
    catalog.change_quotas({EVERYBODY: replaced_by({}), EVERY_CLIENT_OF_ALICE: replaced_by({})})
    assert catalog.quotas() == {}
