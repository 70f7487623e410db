"""DescribeClientQuotas and AlterClientQuotas: filters, alterations, and every way to ask wrongly."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire

NONE, INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
EXACT, DEFAULT, ANY = 0, 1, 2

Alter = m.AlterClientQuotasRequest
Describe = m.DescribeClientQuotasRequest
Entity = dict[str, str | None]
Filter = tuple[str, int, str | None]


def alter_all(wire: Wire, *entries: Alter.EntryData, validate_only: bool = False) -> list[tuple[int, str | None]]:
    response = wire.ask(Alter(entries=list(entries), validate_only=validate_only), m.AlterClientQuotasResponse, 1)
    return [(entry.error_code, entry.error_message) for entry in response.entries]


def entry(entity: Entity, *ops: Alter.OpData) -> Alter.EntryData:
    parts = [Alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return Alter.EntryData(entity=parts, ops=list(ops))


def put(key: str, value: float) -> Alter.OpData:
    return Alter.OpData(key=key, value=value, remove=False)


def remove(key: str) -> Alter.OpData:
    return Alter.OpData(key=key, remove=True)


def alter(wire: Wire, entity: Entity, *ops: Alter.OpData, validate_only: bool = False) -> tuple[int, str | None]:
    (result,) = alter_all(wire, entry(entity, *ops), validate_only=validate_only)
    return result


def describe(wire: Wire, *filters: Filter, strict: bool = False) -> m.DescribeClientQuotasResponse:
    components = [
        Describe.ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in filters
    ]
    return wire.ask(Describe(components=components, strict=strict), m.DescribeClientQuotasResponse, 1)


def found(wire: Wire, *filters: Filter, strict: bool = False) -> list[tuple[Entity, dict[str, float]]]:
    response = describe(wire, *filters, strict=strict)
    assert response.error_code == NONE
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in response.entries or []
    ]


@pytest.fixture(autouse=True)
def none_before(wire: Wire) -> None:
    """The broker is shared: the quotas of earlier tests are removed."""
    for entity, values in found(wire):
        assert alter(wire, entity, *(remove(key) for key in values)) == (NONE, None)


class TestAltering:
    def test_what_is_set_is_described_until_it_is_removed(self, wire: Wire) -> None:
        mine: Entity = {"user": "a"}
        assert alter(wire, mine, put("producer_byte_rate", 1000.0), put("request_percentage", 12.5)) == (NONE, None)
        assert found(wire, ("user", EXACT, "a")) == [(mine, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})]
        assert alter(wire, mine, remove("producer_byte_rate")) == (NONE, None)
        assert found(wire, ("user", EXACT, "a")) == [(mine, {"request_percentage": 12.5})]
        assert alter(wire, mine, remove("request_percentage"), remove("never set")) == (NONE, None)
        assert found(wire) == []

    def test_a_trial_changes_nothing(self, wire: Wire) -> None:
        assert alter(wire, {"user": "a"}, put("producer_byte_rate", 1.0), validate_only=True) == (NONE, None)
        assert found(wire) == []

    def test_each_entity_succeeds_or_fails_on_its_own(self, wire: Wire) -> None:
        results = alter_all(
            wire,
            entry({"user": "a"}, put("producer_byte_rate", 1.0)),
            entry({"user": "b"}, put("producer_byte_rate", -1.0)),
        )
        assert results == [(NONE, None), (INVALID_REQUEST, "Quota producer_byte_rate must be greater than 0")]
        assert found(wire) == [({"user": "a"}, {"producer_byte_rate": 1.0})]

    def test_an_entity_that_is_named_twice_is_an_error(self, wire: Wire) -> None:
        one = entry({"user": "a"}, put("producer_byte_rate", 1.0))
        ((code, message),) = alter_all(wire, one, one)
        assert code == INVALID_REQUEST
        assert message == "Ignoring duplicate entity ClientQuotaEntity(entries={user=a})"
        ((code, _),) = alter_all(
            wire, entry({"user": "b"}, put("producer_byte_rate", 1.0), remove("producer_byte_rate"))
        )
        assert code == INVALID_REQUEST

    @pytest.mark.parametrize(
        ("entity", "key", "value", "message"),
        [
            ({}, "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
            ({"user": ""}, "producer_byte_rate", 1.0, "Empty user not supported"),
            ({"planet": "a"}, "producer_byte_rate", 1.0, "Unhandled client quota entity type: planet"),
            ({"user": "a"}, "no_such_rate", 1.0, "Invalid configuration key no_such_rate"),
            ({"user": "a"}, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
            ({"ip": None}, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
            ({"user": "a"}, "request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
            ({"user": "a"}, "request_percentage", float("nan"), "Quota request_percentage must be greater than 0"),
            ({"user": "a"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
            (
                {"user": "a"},
                "consumer_byte_rate",
                1e30,
                "Proposed value for consumer_byte_rate is too large for a LONG.",
            ),
            (
                {"ip": "10.0.0.1"},
                "connection_creation_rate",
                1e10,
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
            ({"ip": "nowhere"}, "connection_creation_rate", 1.0, "nowhere is not a valid IP or resolvable host."),
            (
                {"ip": "10.0.0.1", "user": "a"},
                "connection_creation_rate",
                1.0,
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
        ],
    )
    def test_a_wrong_alteration_is_refused_in_kafkas_words(
        self, wire: Wire, entity: Entity, key: str, value: float, message: str
    ) -> None:
        assert alter(wire, entity, put(key, value)) == (INVALID_REQUEST, message)
        assert found(wire) == []

    def test_an_address_may_have_a_rate_of_connections(self, wire: Wire) -> None:
        assert alter(wire, {"ip": "10.0.0.1"}, put("connection_creation_rate", 5.0)) == (NONE, None)
        assert found(wire, ("ip", ANY, None)) == [({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0})]


class TestFilters:
    @pytest.fixture(autouse=True)
    def quotas(self, wire: Wire, none_before: None) -> None:
        for number, entity in enumerate(self.entities, 1):
            assert alter(wire, entity, put("producer_byte_rate", number)) == (NONE, None)

    entities: tuple[Entity, ...] = (
        {"user": "a"},
        {"user": None},
        {"client-id": "x"},
        {"client-id": "x", "user": "a"},
        {"client-id": None, "user": "a"},
    )

    @pytest.mark.parametrize(
        ("filters", "strict", "numbers"),
        [
            ([], False, {1, 2, 3, 4, 5}),
            ([], True, set()),
            ([("user", EXACT, "a")], False, {1, 4, 5}),
            ([("user", EXACT, "a")], True, {1}),
            ([("user", DEFAULT, None)], False, {2}),
            ([("user", ANY, None)], False, {1, 2, 4, 5}),
            ([("user", ANY, None)], True, {1, 2}),
            ([("user", ANY, None), ("client-id", DEFAULT, None)], False, {5}),
            ([("user", ANY, None), ("client-id", ANY, None)], True, {4, 5}),
            ([("user", EXACT, "nobody")], False, set()),
        ],
    )
    def test_a_filter_finds_what_it_names(
        self, wire: Wire, filters: list[Filter], strict: bool, numbers: set[int]
    ) -> None:
        result = found(wire, *filters, strict=strict)
        assert {int(values["producer_byte_rate"]) for _, values in result} == numbers

    @pytest.mark.parametrize(
        ("filters", "error", "message"),
        [
            ([("", EXACT, "a")], INVALID_REQUEST, "Invalid empty entity type."),
            ([("planet", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type planet"),
            ([("user", 7, "a")], INVALID_REQUEST, "Unknown match type 7"),
            (
                [("user", EXACT, None)],
                INVALID_REQUEST,
                "Request specified MATCH_TYPE_EXACT, but set match string to null.",
            ),
            (
                [("user", DEFAULT, "a")],
                INVALID_REQUEST,
                "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
            ),
            (
                [("user", ANY, "a")],
                INVALID_REQUEST,
                "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
            ),
            (
                [("user", EXACT, "a"), ("user", EXACT, "b")],
                INVALID_REQUEST,
                "Entity type user cannot appear more than once in the filter.",
            ),
            (
                [("user", EXACT, "a"), ("ip", ANY, None)],
                INVALID_REQUEST,
                "Invalid entity filter component combination. IP filter component should not be used with "
                "user or clientId filter component.",
            ),
        ],
    )
    def test_a_wrong_filter_is_refused_in_kafkas_words(
        self, wire: Wire, filters: list[Filter], error: ErrorCode, message: str
    ) -> None:
        response = describe(wire, *filters)
        assert (response.error_code, response.error_message, response.entries) == (error, message, None)
