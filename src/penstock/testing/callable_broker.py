"""The broker of the fixture `penstock_broker`, which starts further ones when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from penstock.security.acls import AclBinding
from penstock.testing.broker import Broker


class CallableBroker(Broker):
    """A broker; `broker(tls=True, users={...})` starts another one, which ends with it."""

    _others: ExitStack | None = None

    def __call__(
        self,
        configs: Mapping[str, object] | None = None,
        *,
        data: str | Path | None = None,
        tls: bool = False,
        sasl: str | Iterable[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding | str] | None = None,
        super_users: Iterable[str] | None = None,
    ) -> Broker:
        self._others = self._others or ExitStack()
        return self._others.enter_context(
            Broker(configs, data=data, tls=tls, sasl=sasl, users=users, acls=acls, super_users=super_users)
        )

    def close(self) -> None:
        try:
            if self._others is not None:
                self._others.close()
        finally:
            super().close()
