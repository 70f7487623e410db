"""Client quotas through the admin client."""

from __future__ import annotations

import pytest

from penstock.client import Admin
from penstock.client.admin import ANY, DEFAULT, ClientQuotaEntity
from penstock.client.errors import UsageError
from penstock.wire.errors import InvalidRequest

CAROL = ClientQuotaEntity(user="carol")
CAROLS_APP = ClientQuotaEntity(user="carol", client_id="app")
CAROLS_OTHERS = ClientQuotaEntity(user="carol", client_id=DEFAULT)


async def test_they_are_set_found_and_removed(admin: Admin) -> None:
    outcome = await admin.alter_client_quotas(
        {
            CAROL: {"producer_byte_rate": 1000},
            CAROLS_APP: {"request_percentage": 5},
            CAROLS_OTHERS: {"consumer_byte_rate": 7},
        }
    )
    assert outcome == {CAROL: None, CAROLS_APP: None, CAROLS_OTHERS: None}
    assert await admin.describe_client_quotas(user="carol") == {
        CAROL: {"producer_byte_rate": 1000},
        CAROLS_APP: {"request_percentage": 5},
        CAROLS_OTHERS: {"consumer_byte_rate": 7},
    }
    assert await admin.describe_client_quotas(user="carol", strict=True) == {CAROL: {"producer_byte_rate": 1000}}
    assert await admin.describe_client_quotas(user="carol", client_id=DEFAULT) == {
        CAROLS_OTHERS: {"consumer_byte_rate": 7}
    }
    assert set(await admin.describe_client_quotas(user="carol", client_id=ANY)) == {CAROLS_APP, CAROLS_OTHERS}
    await admin.alter_client_quotas(
        {
            CAROL: {"producer_byte_rate": None},
            CAROLS_APP: {"request_percentage": None},
            CAROLS_OTHERS: {"consumer_byte_rate": None},
        }
    )
    assert await admin.describe_client_quotas(user="carol") == {}


async def test_a_trial_changes_nothing(admin: Admin) -> None:
    assert await admin.alter_client_quotas({CAROL: {"producer_byte_rate": 1000}}, validate_only=True) == {CAROL: None}
    assert await admin.describe_client_quotas(user="carol") == {}


async def test_what_is_refused_is_told_by_entity(admin: Admin) -> None:
    outcome = await admin.alter_client_quotas({CAROL: {"no_such_rate": 1}})
    assert isinstance(outcome[CAROL], InvalidRequest)


async def test_nothing_to_change_is_a_mistake(admin: Admin) -> None:
    with pytest.raises(UsageError):
        await admin.alter_client_quotas({})
