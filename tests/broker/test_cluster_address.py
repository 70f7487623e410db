"""The address of a cluster is libpq's, with a schema, and is shown without its passwords."""

from __future__ import annotations

import pytest

from penstock.broker.cluster_address import ClusterAddress
from penstock.catalog.contract import CatalogError


@pytest.mark.parametrize(
    ("url", "conninfo", "schema"),
    [
        ("postgresql://penstock@db:5433/p", "postgresql://penstock@db:5433/p", "penstock"),
        ("postgres:///?service=streams", "postgres:///?service=streams", "penstock"),
        ("postgresql://db/p?schema=east", "postgresql://db/p", "east"),
        ("postgresql://a,b/p?sslmode=verify-full&schema=E%20%22x%22&port=1", None, 'E "x"'),
    ],
)
def test_the_schema_is_taken_from_the_address(url: str, conninfo: str | None, schema: str) -> None:
    address = ClusterAddress.parse(url)
    assert address.conninfo == (conninfo or "postgresql://a,b/p?sslmode=verify-full&port=1")
    assert address.schema == schema
    assert not address.has_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:hunter2@db/p", "postgresql://u:***@db/p?schema=penstock"),
        ("postgresql://u:hun@ter2@db/p", "postgresql://u:***@db/p?schema=penstock"),
        ("postgresql://u@db/p?password=hunter2", "postgresql://u@db/p?password=***&schema=penstock"),
        ("postgresql://db/p?passwor%64=hunter2&schema=a", "postgresql://db/p?passwor%64=***&schema=a"),
        ("postgresql://db/p?sslpassword=hunter2", "postgresql://db/p?sslpassword=***&schema=penstock"),
    ],
)
def test_a_password_is_found_and_not_shown(url: str, shown: str) -> None:
    address = ClusterAddress.parse(url)
    assert address.has_password
    assert address.shown == shown
    assert "ter2" not in repr(address)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://u:hunter2@db/p", "not the address of a PostgreSQL database"),
        ("db.example:5432", "not the address of a PostgreSQL database"),
        ("postgresql://db/p?schema=", "1 to 63 bytes"),
        ("postgresql://db/p?schema=" + "s" * 64, "1 to 63 bytes"),
        ("postgresql://db/p?schema=a%00b", "1 to 63 bytes"),
        ("postgresql://db/p?schema=public", "not for a cluster alone"),
        ("postgresql://db/p?schema=pg_catalog", "not for a cluster alone"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(url: str, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint) as refusal:
        ClusterAddress.parse(url)
    assert "hunter2" not in str(refusal.value)
