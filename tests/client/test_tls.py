"""TLS, in front of a real broker: a proxy of the test's own that ends it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.client import Admin, BrokerUnreachable, Consumer, KafkaError, Producer, ShareConsumer, TlsFailed
from penstock.client.config import ClientConfig, load
from penstock.client.errors import UsageError
from penstock.client.tls import context_of
from penstock.testing.broker import Broker
from tests.client.conftest import free_port


@dataclass
class Identity:
    """A key and a certificate that vouches for itself."""

    certificate: str
    key: str
    encrypted_key: str


def identity(folder: Path, name: str, subject: str) -> Identity:
    made = Identity(*(str(folder / f"{name}{end}") for end in (".pem", ".key", ".enc")))
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    about = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={subject}"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *about, "-keyout", made.key, "-out", made.certificate],
        check=True,
        capture_output=True,
    )
    subprocess.run(
        ["openssl", "ec", "-aes256", "-in", made.key, "-out", made.encrypted_key, "-passout", "pass:secret"],
        check=True,
        capture_output=True,
    )
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity(tmp_path_factory.mktemp("tls"), "server", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity(tmp_path_factory.mktemp("tls"), "stranger", "DNS:elsewhere.example")


@pytest.fixture(scope="module")
def port() -> int:
    """Where the proxy listens, and what the broker therefore tells its clients."""
    return free_port()


@pytest.fixture(scope="module")
def broker(port: int) -> Iterator[Broker]:
    with Broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as it:
        it.create_topic("t", 1)
        yield it


@asynccontextmanager
async def proxy(broker: Broker, port: int, who: Identity, client: Identity | None = None) -> AsyncIterator[str]:
    """Ends TLS as `who` and passes everything on; asks clients for the certificate of `client`, if given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(who.certificate, who.key)
    if client is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client.certificate)
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", broker.port)
        for task in (asyncio.create_task(pump(reader, to_writer)), asyncio.create_task(pump(to_reader, writer))):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(serve, "127.0.0.1", port, ssl=context)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def answering(port: int, data: bytes) -> AsyncIterator[str]:
    """Something that is no broker, and says the same to everybody."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield f"127.0.0.1:{port}"


async def test_every_client_works_through_tls(broker: Broker, port: int, server: Identity) -> None:
    async with proxy(broker, port, server) as address:
        tls = {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": server.certificate}
        async with Admin(tls) as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        async with Producer(tls) as producer:
            await producer.send_batch("t", [b"v" * 1000] * 500)
        async with Consumer(tls, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            seen = 0
            async with asyncio.timeout(20):
                while seen < 500:
                    seen += len(await consumer.poll(1000))
        async with ShareConsumer(tls, group_id="share") as worker:
            worker.subscribe(["t"])
            assert await worker.poll(200) == []


async def test_naming_the_authority_is_enough(broker: Broker, port: int, server: Identity) -> None:
    async with proxy(broker, port, server) as address, Admin(bootstrap_servers=address, ssl_cafile=server.certificate):
        pass


async def test_a_context_of_ones_own_is_used(broker: Broker, port: int, server: Identity) -> None:
    context = ssl.create_default_context(cafile=server.certificate)
    async with proxy(broker, port, server) as address, Admin(bootstrap_servers=address, ssl_context=context):
        pass


async def test_a_certificate_of_another_authority_is_refused(
    broker: Broker, port: int, server: Identity, stranger: Identity
) -> None:
    async with proxy(broker, port, server) as address:
        with pytest.raises(TlsFailed, match=f"certificate of {address} is not trusted .*ssl_cafile"):
            async with Producer(bootstrap_servers=address, ssl_cafile=stranger.certificate):
                pass


async def test_a_certificate_for_another_host_is_refused_unless_that_is_wanted(
    broker: Broker, port: int, stranger: Identity
) -> None:
    async with proxy(broker, port, stranger) as address:
        with pytest.raises(TlsFailed, match="for another host"):
            async with Admin(bootstrap_servers=address, ssl_cafile=stranger.certificate):
                pass
        async with Admin(bootstrap_servers=address, ssl_cafile=stranger.certificate, ssl_check_hostname=False):
            pass


async def test_a_client_shows_its_own_certificate(
    broker: Broker, port: int, server: Identity, stranger: Identity
) -> None:
    async with proxy(broker, port, server, client=stranger) as address:
        settings = {"bootstrap.servers": address, "ssl.ca.location": server.certificate}
        own = {"ssl.certificate.location": stranger.certificate, "ssl.key.location": stranger.encrypted_key}
        async with Admin(settings | own, ssl_password="secret"):
            pass
        with pytest.raises(UsageError, match="ssl_password must open the key"):
            Admin(settings | own, ssl_password="wrong")


async def test_plain_text_and_tls_are_told_apart(broker: Broker, port: int, server: Identity) -> None:
    async with proxy(broker, port, server) as address:
        with pytest.raises(BrokerUnreachable, match="does it want security_protocol='ssl'"):
            async with Admin(bootstrap_servers=address):
                pass
    with pytest.raises(BrokerUnreachable, match="is it a plaintext listener"):
        async with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}", security_protocol="SSL"):
            pass


async def test_an_answer_in_plain_text_is_recognised_in_tls(port: int) -> None:
    async with answering(port, b"220 a mail server, say\r\n") as address:
        with pytest.raises(TlsFailed, match="does not speak TLS"):
            async with Admin(bootstrap_servers=address, security_protocol="SSL"):
                pass


async def test_an_answer_in_tls_is_recognised_in_plain_text(port: int) -> None:
    async with answering(port, b"\x15\x03\x03\x00\x02\x02\x28") as address:
        with pytest.raises(TlsFailed, match="answers in TLS; set security_protocol='ssl'"):
            async with Admin(bootstrap_servers=address):
                pass


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nonsense")
    for name in (str(file), str(tmp_path / "missing.pem")):
        with pytest.raises(UsageError, match="cannot be read as PEM certificates"):
            Admin(bootstrap_servers="127.0.0.1:1", ssl_cafile=name)


def text_of(path: str) -> str:
    return Path(path).read_text()


async def test_certificates_and_key_may_be_in_the_settings_themselves(
    broker: Broker, port: int, server: Identity, stranger: Identity
) -> None:
    inline = {
        "ssl.truststore.certificates": text_of(server.certificate),
        "ssl.keystore.certificate.chain": text_of(stranger.certificate),
        "ssl.keystore.key": text_of(stranger.encrypted_key),
        "ssl.key.password": "secret",
        "ssl.keystore.type": "PEM",
    }
    async with proxy(broker, port, server, client=stranger) as address, Admin({"bootstrap.servers": address, **inline}):
        pass
    with pytest.raises(UsageError, match="ssl_password must open the key") as caught:
        Admin({**inline, "ssl.key.password": "wrong"})
    assert "PRIVATE" not in str(caught.value)
    with pytest.raises(UsageError, match="ssl_truststore_certificates cannot be read as PEM"):
        Admin({"ssl.truststore.certificates": "nonsense"})


async def test_a_client_without_the_certificate_that_is_asked_for_learns_so(
    broker: Broker, port: int, server: Identity, stranger: Identity
) -> None:
    async with proxy(broker, port, server, client=stranger) as address:
        with pytest.raises(KafkaError, match="wants a certificate of this client"):
            async with asyncio.timeout(20), Admin(bootstrap_servers=address, ssl_cafile=server.certificate):
                pass


@pytest.mark.parametrize(
    ("head", "settings", "command"),
    [
        (b"\xfe\xed\xfe\xed", {}, "keytool -list -rfc -keystore"),
        (b"0\x82\x04\x00", {}, "keytool -list -rfc -keystore"),
        (b"-----BEGIN", {"ssl.truststore.type": "JKS"}, "the truststore is JKS"),
    ],
)
def test_a_truststore_of_java_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, head: bytes, settings: dict[str, str], command: str
) -> None:
    store = tmp_path / "trust"
    store.write_bytes(head)
    with pytest.raises(UsageError, match=command):
        Admin({"ssl.truststore.location": str(store), **settings})


@pytest.mark.parametrize(
    ("head", "command"), [(b"\xfe\xed\xfe\xed", "importkeystore"), (b"0\x82\x04\x00", "pkcs12 -in")]
)
def test_a_keystore_of_java_is_refused_with_the_command_that_converts_it(
    tmp_path: Path, head: bytes, command: str
) -> None:
    store = tmp_path / "keys"
    store.write_bytes(head)
    with pytest.raises(UsageError, match=command):
        Admin({"ssl.keystore.location": str(store)})


def test_versions_of_tls_can_be_limited() -> None:
    context = context_of(load(ClientConfig, {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.3"}, {}))
    assert context is not None
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(UsageError, match=r"TLSv1\.2, TLSv1\.3 or both"):
        Admin({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"})
