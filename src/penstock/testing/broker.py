"""The in-process broker: in a thread of its own (`Broker`) or in the running event loop (`AsyncBroker`)."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from penstock.broker.foundation import Settings, open_catalog
from penstock.broker.server import Broker as Server
from penstock.security.acls import AclBinding
from penstock.testing.faults import DelayFault, DropFault, ErrorFault, Fault, Faults, api_key
from penstock.testing.security import Security
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode

T = TypeVar("T")

_START_SECONDS = 30.0
_STOP_SECONDS = 30.0

# Nothing waits for the disk or for members that might still come, and internal topics are small. Session timeouts may
# be short, so that a test of a member that dies does not wait for Kafka's six seconds.
FAST_CONFIGS = {
    "penstock.acks.all.flush": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "log.segment.delete.delay.ms": "0",
}


class _Common:
    """What both faces share: folder, settings, the port that survives a restart."""

    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        *,
        data: str | Path | None = None,
        tls: bool = False,
        sasl: str | Iterable[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding | str] | None = None,
        super_users: Iterable[str] | None = None,
    ) -> None:
        self._security = Security(tls=tls, sasl=sasl, users=users, acls=acls, super_users=super_users)
        self._is_prepared = False
        self._configs = {**FAST_CONFIGS, **{name: str(value) for name, value in (configs or {}).items()}}
        self._temporary = data is None
        self._data = Path(tempfile.mkdtemp(prefix="penstock-")) if data is None else Path(data)
        self._port = 0
        self._server: Server | None = None
        self._faults: Faults | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The value for a client's `bootstrap.servers`."""
        return self._running().bootstrap

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self._running().port

    @property
    def data(self) -> Path:
        """The data folder; a temporary one is removed at the end."""
        return self._data

    @property
    def ca_file(self) -> str:
        """The PEM file of the authority that signed the broker's certificate, if it has one (`tls=True`)."""
        self._running()
        return self._security.ca_file

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """Settings for `penstock.client` to connect as this user; `user` can be left out if there is only one."""
        return {"bootstrap_servers": self.bootstrap_servers, **self._security.client(user)}

    def librdkafka(self, user: str | None = None) -> dict[str, str | int | float | bool]:
        """The same for confluent-kafka and other clients that are built on librdkafka."""
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.librdkafka(user)}

    def kafka_python(self, user: str | None = None) -> dict[str, str]:
        """The same for kafka-python."""
        return {"bootstrap_servers": self.bootstrap_servers, **self._security.kafka_python(user)}

    def aiokafka(self, user: str | None = None) -> dict[str, str | ssl.SSLContext]:
        """The same for aiokafka."""
        return {"bootstrap_servers": self.bootstrap_servers, **self._security.aiokafka(user)}

    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the broker is not running: use it in a `with` block, or call start()")
        return self._server

    async def _open(self) -> Server:
        security = self._security
        configs = {**security.prepare(self._data), **self._configs}
        if not self._is_prepared and (security.users or security.rules):
            with open_catalog(self._data) as catalog:
                security.keep(catalog)
        self._is_prepared = True
        listen = f"{security.protocol.value}://127.0.0.1:{self._port}"
        server = Server(Settings(self._data, [listen], configs=configs))
        await server.start()
        self._port = server.port
        self._faults = Faults(server.parts.dispatcher)
        return server

    def _add_fault(self, fault: Fault) -> None:
        assert self._faults is not None
        self._faults.add(fault)

    def _heal(self, api: ApiKey | None) -> None:
        assert self._faults is not None
        self._faults.heal(api)

    def _create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        self._running().parts.topics.create(name, partitions, configs)

    def _remove(self) -> None:
        if self._temporary:
            shutil.rmtree(self._data, ignore_errors=True)


class Broker(_Common):
    """A broker in a thread of its own, with its own event loop. Every method may be called from any thread.

    `configs` are Kafka's broker configs. `data` names a folder to keep; without it a temporary one is used. `tls`,
    `sasl` (mechanisms), `users` (with their passwords), `acls` (rules, or lines such as "alice read topic orders") and
    `super_users` set up security; `client_settings(user)` returns the settings for a client.
    """

    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        *,
        data: str | Path | None = None,
        tls: bool = False,
        sasl: str | Iterable[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding | str] | None = None,
        super_users: Iterable[str] | None = None,
    ) -> None:
        super().__init__(configs, data=data, tls=tls, sasl=sasl, users=users, acls=acls, super_users=super_users)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> Self:
        """Start serving; returns when clients can connect."""
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        ready = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="penstock-broker", daemon=True)
        self._thread.start()
        if not ready.wait(_START_SECONDS):
            raise TimeoutError(f"the broker did not start within {_START_SECONDS:.0f} s")
        if self._failure is not None:
            self._join()
            raise self._failure
        return self

    def stop(self) -> None:
        """Stop serving and flush. The data stays, and `start` serves it again on the same port."""
        server, loop = self._server, self._loop
        if server is not None and loop is not None:
            loop.call_soon_threadsafe(server.stop)
        self._join()
        if self._failure is not None:
            raise self._failure

    def restart(self) -> None:
        """Stop the broker and start it again, with its data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop and remove the temporary folder."""
        try:
            self.stop()
        finally:
            self._remove()

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; configs with underscores for dots: `create_topic("t", cleanup_policy="compact")`."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self._call(lambda: self._create_topic(name, partitions, named))

    def fail(
        self, api: str | ApiKey, error: ErrorCode, *, times: int | None = 1, whole_response: bool = False
    ) -> Fault:
        """Answer the next requests of an API with an error, without carrying them out.

        Every partition, topic or group that the request names gets the error; `whole_response` sets the error code of
        the response itself instead.
        """
        return self._with(ErrorFault(api_key(api), times, error, whole_response))

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None = 1) -> Fault:
        """Handle the next requests of an API later."""
        return self._with(DelayFault(api_key(api), times, seconds))

    def drop(self, api: str | ApiKey, *, times: int | None = 1) -> Fault:
        """Close the connection instead of handling the next requests of an API."""
        return self._with(DropFault(api_key(api), times))

    def heal(self, api: str | ApiKey | None = None) -> None:
        """End the faults of an API, or all."""
        self._call(lambda: self._heal(None if api is None else api_key(api)))

    def _with(self, fault: Fault) -> Fault:
        self._call(lambda: self._add_fault(fault))
        return fault

    def _call(self, function: Callable[[], T]) -> T:
        """Run a function in the broker's thread, where its state may be touched."""
        self._running()
        assert self._loop is not None

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(_START_SECONDS)

    def _run(self, ready: threading.Event) -> None:
        try:
            # The default loop of Windows cannot say when a socket is readable.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:
            self._failure = error
        finally:
            self._server = self._loop = None
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = await self._open()
        ready.set()
        await self._server.serve()

    def _join(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_STOP_SECONDS)
            if thread.is_alive():
                raise TimeoutError(f"the broker did not stop within {_STOP_SECONDS:.0f} s")


class AsyncBroker(_Common):
    """The same in the running event loop: `async with AsyncBroker() as broker: ...`."""

    def __init__(
        self,
        configs: Mapping[str, object] | None = None,
        *,
        data: str | Path | None = None,
        tls: bool = False,
        sasl: str | Iterable[str] | None = None,
        users: Mapping[str, str] | None = None,
        acls: Iterable[AclBinding | str] | None = None,
        super_users: Iterable[str] | None = None,
    ) -> None:
        super().__init__(configs, data=data, tls=tls, sasl=sasl, users=users, acls=acls, super_users=super_users)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> Self:
        """Start serving."""
        if self._task is not None:
            raise RuntimeError("the broker is running already")
        try:
            self._server = await self._open()
        except NotImplementedError as error:
            raise RuntimeError(
                "this event loop cannot say when a socket is readable, as the default loop of Windows: run the program"
                " with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), or use Broker, which has its own loop"
            ) from error
        self._task = asyncio.create_task(self._server.serve())
        return self

    async def stop(self) -> None:
        """Stop serving and flush. The data stays."""
        task, self._task = self._task, None
        if task is not None and self._server is not None:
            self._server.stop()
            try:
                await asyncio.wait_for(task, _STOP_SECONDS)
            finally:
                self._server = None

    async def restart(self) -> None:
        """Stop the broker and start it again, with its data."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stop and remove the temporary folder."""
        try:
            await self.stop()
        finally:
            self._remove()

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; configs with underscores for dots."""
        self._create_topic(name, partitions, {key.replace("_", "."): str(value) for key, value in configs.items()})

    def fail(
        self, api: str | ApiKey, error: ErrorCode, *, times: int | None = 1, whole_response: bool = False
    ) -> Fault:
        """Answer the next requests of an API with an error, without carrying them out."""
        fault = ErrorFault(api_key(api), times, error, whole_response)
        self._add_fault(fault)
        return fault

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None = 1) -> Fault:
        """Handle the next requests of an API later."""
        fault = DelayFault(api_key(api), times, seconds)
        self._add_fault(fault)
        return fault

    def drop(self, api: str | ApiKey, *, times: int | None = 1) -> Fault:
        """Close the connection instead of handling the next requests of an API."""
        fault = DropFault(api_key(api), times)
        self._add_fault(fault)
        return fault

    def heal(self, api: str | ApiKey | None = None) -> None:
        """End the faults of an API, or all."""
        self._heal(None if api is None else api_key(api))
