"""Read the address of a cluster: `postgresql://…?schema=NAME`, libpq's form of a URL with one parameter of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from penstock.catalog.contract import CatalogError

DEFAULT_SCHEMA = "penstock"
_SCHEMES = ("postgresql://", "postgres://")
_SCHEMA_BYTES_MAX = 63  # PostgreSQL cuts longer names, and two clusters would meet
_SECRETS = ("password", "sslpassword")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    conninfo: str = field(repr=False)
    """For libpq; may hold a password."""
    schema: str
    shown: str
    """Without passwords."""
    has_password: bool

    @classmethod
    def parse(cls, url: str) -> ClusterAddress:
        """Raises CatalogError with what is wrong with the address, and shows no password."""
        scheme = next((each for each in _SCHEMES if url.startswith(each)), None)
        if scheme is None:
            raise CatalogError(
                "--cluster is not the address of a PostgreSQL database: postgresql://USER@HOST:PORT/NAME"
            )
        location, _, query = url.removeprefix(scheme).partition("?")
        user, at, rest = location.rpartition("@")
        user, colon, _ = user.partition(":")
        shown_location = user + (f":{_HIDDEN}" if colon else "") + at + rest
        schema, kept, shown, has_password = DEFAULT_SCHEMA, [], [], bool(colon)
        for parameter in filter(None, query.split("&")):
            name, _, value = parameter.partition("=")
            if unquote(name) == "schema":
                schema = unquote(value)
                continue
            is_secret = unquote(name) in _SECRETS
            has_password = has_password or is_secret
            kept.append(parameter)
            shown.append(f"{name}={_HIDDEN}" if is_secret else parameter)
        _check_schema(schema)
        return cls(
            scheme + location + ("?" + "&".join(kept) if kept else ""),
            schema,
            scheme + shown_location + "?" + "&".join([*shown, f"schema={quote(schema, safe='')}"]),
            has_password,
        )


def _check_schema(schema: str) -> None:
    if not schema or "\0" in schema or len(schema.encode()) > _SCHEMA_BYTES_MAX:
        raise CatalogError(f"?schema= in --cluster needs a name of 1 to {_SCHEMA_BYTES_MAX} bytes")
    if schema.startswith("pg_") or schema in ("public", "information_schema"):
        raise CatalogError(f"the schema {schema!r} is not for a cluster alone: name another, as in ?schema=penstock")
