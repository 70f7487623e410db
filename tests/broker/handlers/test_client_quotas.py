"""Client quotas."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Wire

NONE, INVALID_REQUEST = ErrorCode.NONE, ErrorCode.INVALID_REQUEST


class TestQuotas:
    def describe(self, wire: Wire, kind: str, match_type: int, match: str | None = None) -> tuple[int, object]:
        component = m.DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match_type, match=match)
        answer = wire.ask(m.DescribeClientQuotasRequest(components=[component]), m.DescribeClientQuotasResponse, 1)
        return answer.error_code, answer.entries

    def alter(self, wire: Wire, remove: bool, **entity: str | None) -> int:
        request = m.AlterClientQuotasRequest
        entry = request.EntryData(
            entity=[
                request.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                for kind, name in entity.items()
            ],
            ops=[request.OpData(key="producer_byte_rate", value=1.0, remove=remove)],
        )
        (result,) = wire.ask(request(entries=[entry]), m.AlterClientQuotasResponse, 1).entries
        return result.error_code

    def test_there_are_none(self, wire: Wire) -> None:
        assert self.describe(wire, "user", 2) == (NONE, [])

    @pytest.mark.parametrize(
        ("kind", "match_type", "match", "error"),
        [
            ("", 0, "a", INVALID_REQUEST),
            ("planet", 0, "a", ErrorCode.UNSUPPORTED_VERSION),
            ("user", 7, "a", INVALID_REQUEST),
            ("user", 0, None, INVALID_REQUEST),
        ],
        ids=["no kind", "unknown kind", "unknown match", "exact match of nobody"],
    )
    def test_a_wrong_filter_is_refused(
        self, wire: Wire, kind: str, match_type: int, match: str | None, error: ErrorCode
    ) -> None:
        assert self.describe(wire, kind, match_type, match) == (error, None)

    def test_setting_one_is_refused_because_nothing_would_enforce_it(self, wire: Wire) -> None:
        assert self.alter(wire, False, user="a") == INVALID_REQUEST

    def test_removing_one_succeeds(self, wire: Wire) -> None:
        assert self.alter(wire, True, user="a", client_id=None) == NONE

    def test_removing_one_of_nobody_is_refused(self, wire: Wire) -> None:
        assert self.alter(wire, True) == INVALID_REQUEST
        assert self.alter(wire, True, user="") == INVALID_REQUEST
        assert self.alter(wire, True, user="a", ip="127.0.0.1") == INVALID_REQUEST
        assert self.alter(wire, True, planet="a") == INVALID_REQUEST
