"""Security of a broker for tests: certificates, users and ACLs from arguments, and settings for clients."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.security.acl_words import parse_rule
from penstock.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from penstock.catalog.contract import Catalog
    from penstock.security.acls import AclBinding

DEFAULT_MECHANISM = "SCRAM-SHA-512"
_HOSTS = ("localhost", "127.0.0.1", "::1")
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CA_FILE = "ca.pem"


class Security:
    """What a broker for tests asks of its clients.

    Users without a mechanism mean SCRAM-SHA-512. Rules or super users, even none of them (`acls=[]`), turn access
    control on; without both everybody may do everything.
    """

    def __init__(
        self,
        *,
        tls: bool = False,
        sasl: str | Iterable[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding | str] | None = None,
        super_users: Iterable[str] | None = None,
    ) -> None:
        named = [sasl] if isinstance(sasl, str) else list(sasl or ())
        self.users = dict(users or {})
        self.mechanisms = named or ([DEFAULT_MECHANISM] if self.users else [])
        self.has_tls = tls
        self.rules = None if acls is None else [parse_rule(rule) if isinstance(rule, str) else rule for rule in acls]
        self.super_users = None if super_users is None else [_principal(each) for each in super_users]
        self._ca_file: Path | None = None
        self._configs: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Security({self.protocol.value}, users={sorted(self.users)})"

    @property
    def protocol(self) -> SecurityProtocol:
        return SecurityProtocol(("SASL_" if self.mechanisms else "") + ("SSL" if self.has_tls else "PLAINTEXT"))

    @property
    def has_rules(self) -> bool:
        return self.rules is not None or self.super_users is not None

    def prepare(self, folder: Path) -> dict[str, str]:
        """The broker configs; certificates are made when this is called first, and clients find theirs in `folder`."""
        if self._configs:
            return self._configs
        configs: dict[str, str] = {}
        if self.has_tls:
            from penstock.certificates import make_certificates

            certificates = make_certificates(_HOSTS)
            configs |= certificates.broker_configs()
            folder.mkdir(parents=True, exist_ok=True)
            self._ca_file = folder / _CA_FILE
            self._ca_file.write_text(certificates.authority.certificate)
        if self.mechanisms:
            configs["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        if self.has_rules:
            configs["authorizer.class.name"] = _AUTHORIZER
            configs["super.users"] = ";".join(self.super_users or ())
        self._configs = configs
        return configs

    def keep(self, catalog: Catalog) -> None:
        """Put users and rules where the broker finds them when it starts."""
        from penstock.broker.users import set_password

        for user, password in self.users.items():
            set_password(catalog, user, password)
        catalog.change_acls(self.rules or (), ())

    @property
    def ca_file(self) -> str:
        """The PEM file of the authority that signed the broker's certificate."""
        if self._ca_file is None:
            raise ValueError("the broker has no certificate: it was made without tls=True")
        return str(self._ca_file)

    # Settings of clients, without the broker's address

    def client(self, user: str | None) -> dict[str, str]:
        """For penstock.client, and with dots for underscores for every client that has Kafka's names."""
        settings = {"security_protocol": self.protocol.value}
        if self.has_tls:
            settings["ssl_cafile"] = self.ca_file
        if self.mechanisms:
            name, password = self._login(user)
            settings |= {"sasl_mechanism": self.mechanisms[0], "sasl_username": name, "sasl_password": password}
        return settings

    def librdkafka(self, user: str | None) -> dict[str, str]:
        names = {"ssl_cafile": "ssl.ca.location"}
        return {names.get(name, name.replace("_", ".")): value for name, value in self.client(user).items()}

    def kafka_python(self, user: str | None) -> dict[str, str]:
        names = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
        return {names.get(name, name): value for name, value in self.client(user).items()}

    def aiokafka(self, user: str | None) -> dict[str, str | ssl.SSLContext]:
        settings: dict[str, str | ssl.SSLContext] = dict(self.kafka_python(user))
        if self.has_tls:
            settings["ssl_context"] = ssl.create_default_context(cafile=str(settings.pop("ssl_cafile")))
        return settings

    def _login(self, user: str | None) -> tuple[str, str]:
        if user is None and len(self.users) == 1:
            (user,) = self.users
        if user not in self.users:
            known = ", ".join(repr(each) for each in self.users) or "none"
            raise ValueError(f"{user!r} is no user of this broker; its users are {known}")
        assert user is not None
        return user, self.users[user]


def _principal(user: str) -> str:
    return user if user.startswith("User:") else f"User:{user}"
