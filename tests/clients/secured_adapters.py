"""Kafka clients behind one face, each told in its own words how to get in, and what it says when it is kept out."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import aiokafka
import aiokafka.abc
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.admin
import kafka.errors
import kafka.net.sasl.oauth
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client import Admin, Consumer, Producer, ShareConsumer, TlsFailed
from penstock.wire.errors import Network, SaslAuthenticationFailed
from tests.clients.secured import WAIT_S, Way

T = TypeVar("T")
WAIT_MS = WAIT_S * 1000
AUTHENTICATION, TLS, CLOSED = "authentication", "tls", "closed"
"""What a client blames when it is not let in. CLOSED: it only sees that the connection ends."""


class SecuredClient(Protocol):
    name: str
    shares: bool

    def create_topic(self, way: Way, topic: str) -> None: ...

    def produce(self, way: Way, topic: str, values: list[bytes]) -> None: ...

    def consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        """Consumes in a group, from the beginning, and commits."""
        ...

    def share_consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]: ...

    def kept_out(self, way: Way) -> str:
        """What the client blames after it has tried to get in."""
        ...

    def connected(self, way: Way, topic: str) -> Any:
        """A context with a function that produces one record and says what the client blames, or nothing."""
        ...


_TRIES = 12
"""So many lost connections are enough to believe that no other cause will be named."""


class Confluent:
    name = "confluent-kafka"
    shares = True

    def _settings(self, way: Way, **more: object) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": way.address,
            "security.protocol": way.protocol.lower(),
            "log_level": 0,
            **more,
        }
        if way.has_tls:
            settings["ssl.ca.location"] = str(way.authority)
        if way.identity:
            settings["ssl.certificate.location"] = str(way.identity.certificate)
            settings["ssl.key.location"] = str(way.identity.key)
        if way.mechanism:
            settings["sasl.mechanisms"] = way.mechanism
        if way.token:
            settings["oauth_cb"] = lambda _: (way.token, time.time() + 3600)
        elif way.mechanism:
            settings |= {"sasl.username": way.user, "sasl.password": way.password}
        return settings

    def create_topic(self, way: Way, topic: str) -> None:
        admin = AdminClient(self._settings(way))
        admin.poll(0)
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)

    def produce(self, way: Way, topic: str, values: list[bytes]) -> None:
        errors: list[object] = []
        producer = confluent_kafka.Producer(self._settings(way, **{"linger.ms": 0}))
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error) if error else None)
        assert producer.flush(WAIT_S) == 0
        assert errors == []

    def consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(self._settings(way, **options))
        try:
            consumer.subscribe([topic])
            found = consumer.consume(count, WAIT_S)
            consumer.commit(asynchronous=False)
            return [message.value() or b"" for message in found]
        finally:
            consumer.close()

    def share_consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.ShareConsumer(self._settings(way, **{"group.id": group}))
        try:
            consumer.subscribe([topic])
            found: list[bytes] = []
            deadline = time.monotonic() + WAIT_S
            while len(found) < count and time.monotonic() < deadline:
                found += [message.value() or b"" for message in consumer.poll(0.5) if not message.error()]
            consumer.commit_sync()
            return found
        finally:
            consumer.close()

    def kept_out(self, way: Way) -> str:
        blamed: list[str] = []
        more = {"error_cb": lambda error: blamed.append(_blamed(error)), "reconnect.backoff.max.ms": 200}
        producer = confluent_kafka.Producer(self._settings(way, **more))
        deadline = time.monotonic() + WAIT_S
        while len(blamed) < _TRIES and not (AUTHENTICATION in blamed or TLS in blamed) and time.monotonic() < deadline:
            producer.poll(0.1)
        return next((blame for blame in blamed if blame != CLOSED), CLOSED if blamed else "")

    @contextmanager
    def connected(self, way: Way, topic: str) -> Iterator[Callable[[], str]]:
        blamed: list[str] = []
        settings = self._settings(way, error_cb=lambda error: blamed.append(_blamed(error)))
        producer = confluent_kafka.Producer(settings)

        def produce() -> str:
            delivered: list[object] = []
            producer.produce(topic, b"x", on_delivery=lambda error, _: delivered.append(error))
            deadline = time.monotonic() + WAIT_S
            while not delivered and AUTHENTICATION not in blamed and time.monotonic() < deadline:
                producer.poll(0.1)
            return AUTHENTICATION if AUTHENTICATION in blamed else str(delivered[0] or "")

        try:
            yield produce
        finally:
            producer.purge()
            producer.flush(1)


def _blamed(error: confluent_kafka.KafkaError) -> str:
    names = {confluent_kafka.KafkaError._AUTHENTICATION: AUTHENTICATION, confluent_kafka.KafkaError._SSL: TLS}
    return names.get(error.code(), CLOSED)


class _Token(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPython:
    name = "kafka-python"
    shares = False

    def _settings(self, way: Way, **more: object) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": way.address,
            "security_protocol": way.protocol,
            "bootstrap_timeout_ms": WAIT_MS,
            **more,
        }
        if way.has_tls:
            settings["ssl_cafile"] = str(way.authority)
        if way.identity:
            settings |= {"ssl_certfile": str(way.identity.certificate), "ssl_keyfile": str(way.identity.key)}
        if way.mechanism:
            settings["sasl_mechanism"] = way.mechanism
        if way.token:
            settings["sasl_oauth_token_provider"] = _Token(way.token)
        elif way.mechanism:
            settings |= {"sasl_plain_username": way.user, "sasl_plain_password": way.password}
        return settings

    def create_topic(self, way: Way, topic: str) -> None:
        admin = kafka.KafkaAdminClient(**self._settings(way))
        try:
            admin.create_topics([kafka.admin.NewTopic(topic, num_partitions=1, replication_factor=1)])
        finally:
            admin.close()

    def produce(self, way: Way, topic: str, values: list[bytes]) -> None:
        producer = kafka.KafkaProducer(**self._settings(way))
        try:
            for future in [producer.send(topic, value) for value in values]:
                future.get(WAIT_S)
        finally:
            producer.close(WAIT_S)

    def consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = kafka.KafkaConsumer(topic, consumer_timeout_ms=WAIT_MS, **self._settings(way, **options))
        try:
            found = [message.value for _, message in zip(range(count), consumer, strict=False)]
            consumer.commit()
            return found
        finally:
            consumer.close()

    def share_consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        raise NotImplementedError("kafka-python has no share consumer")

    def kept_out(self, way: Way) -> str:
        with _logged("kafka") as said:  # it tries until its time is up, and says why only in its log
            try:
                kafka.KafkaProducer(**self._settings(way, bootstrap_timeout_ms=500)).close(WAIT_S)
            except kafka.errors.KafkaTimeoutError:
                return _blamed_in(said)
        return ""

    @contextmanager
    def connected(self, way: Way, topic: str) -> Iterator[Callable[[], str]]:
        options = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "max_block_ms": 1500}
        producer = kafka.KafkaProducer(**self._settings(way, **options))

        def produce() -> str:
            try:
                producer.send(topic, b"x").get(WAIT_S)
            except kafka.errors.KafkaError:
                return _blamed_in(said)
            return ""

        with _logged("kafka") as said:
            try:
                yield produce
            finally:
                producer.close(0)


class _Sayings(logging.Handler):
    """Keeps what a client logs, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def _logged(logger: str) -> Iterator[list[str]]:
    handler = _Sayings()
    logging.getLogger(logger).addHandler(handler)
    try:
        yield handler.said
    finally:
        logging.getLogger(logger).removeHandler(handler)


def _blamed_in(said: list[str]) -> str:
    text = "\n".join(said)
    if "SaslAuthenticationFailed" in text:
        return AUTHENTICATION
    return TLS if re.search(r"certificate verify failed|certificate required", text, re.IGNORECASE) else CLOSED


class _AsyncToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class Aiokafka:
    name = "aiokafka"
    shares = False

    def _settings(self, way: Way, **more: object) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": way.address, "security_protocol": way.protocol, **more}
        if way.has_tls:
            context = ssl.create_default_context(cafile=str(way.authority))
            if way.identity:
                context.load_cert_chain(way.identity.certificate, way.identity.key)
            settings["ssl_context"] = context
        if way.mechanism:
            settings["sasl_mechanism"] = way.mechanism
        if way.token:
            settings["sasl_oauth_token_provider"] = _AsyncToken(way.token)
        elif way.mechanism:
            settings |= {"sasl_plain_username": way.user, "sasl_plain_password": way.password}
        return settings

    def create_topic(self, way: Way, topic: str) -> None:
        async def create() -> None:
            admin = aiokafka.admin.AIOKafkaAdminClient(**self._settings(way))
            await admin.start()
            try:
                new = aiokafka.admin.NewTopic(topic, num_partitions=1, replication_factor=1)
                response = await admin.create_topics([new])
                assert [error[1] for error in response.topic_errors] == [0]
            finally:
                await admin.close()

        _run(create)

    def produce(self, way: Way, topic: str, values: list[bytes]) -> None:
        async def produce() -> None:
            async with aiokafka.AIOKafkaProducer(**self._settings(way)) as producer:
                await asyncio.gather(*[await producer.send(topic, value) for value in values])

        _run(produce)

    def consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        async def consume() -> list[bytes]:
            options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
            async with aiokafka.AIOKafkaConsumer(topic, **self._settings(way, **options)) as consumer:
                found = [(await consumer.getone()).value for _ in range(count)]
                await consumer.commit()
                return found

        return _run(consume)

    def share_consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        raise NotImplementedError("aiokafka has no share consumer")

    def kept_out(self, way: Way) -> str:
        async def try_it() -> None:
            producer = aiokafka.AIOKafkaProducer(**self._settings(way))
            try:
                await producer.start()
            finally:
                await producer.stop()

        with _logged("aiokafka") as said:  # it says that it could not connect, and why only in its log
            try:
                _run(try_it)
            except aiokafka.errors.KafkaConnectionError:
                return _blamed_in(said)
        return ""

    @contextmanager
    def connected(self, way: Way, topic: str) -> Iterator[Callable[[], str]]:
        with asyncio.Runner() as runner, _logged("aiokafka") as said:
            producer = runner.run(self._started(way))

            def produce() -> str:
                try:
                    runner.run(asyncio.wait_for(producer.send_and_wait(topic, b"x"), WAIT_S))
                except aiokafka.errors.KafkaError:
                    return _blamed_in(said)
                return ""

            try:
                yield produce
            finally:
                runner.run(producer.stop())

    async def _started(self, way: Way) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(**self._settings(way, request_timeout_ms=1500))
        await producer.start()
        return producer


class Penstock:
    name = "penstock.client"
    shares = True

    def _settings(self, way: Way, **more: object) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": way.address, "security_protocol": way.protocol, **more}
        if way.has_tls:
            settings["ssl_cafile"] = str(way.authority)
        if way.identity:
            settings |= {"ssl_certfile": str(way.identity.certificate), "ssl_keyfile": str(way.identity.key)}
        if way.mechanism:
            settings["sasl_mechanism"] = way.mechanism
        if way.token:
            settings["sasl_oauth_token_provider"] = lambda: (way.token, time.time() + 3600)
        elif way.mechanism:
            settings |= {"sasl_username": way.user, "sasl_password": way.password}
        return settings

    def create_topic(self, way: Way, topic: str) -> None:
        async def create() -> None:
            async with Admin(**self._settings(way)) as admin:
                await admin.create_topic(topic, 1)

        _run(create)

    def produce(self, way: Way, topic: str, values: list[bytes]) -> None:
        async def produce() -> None:
            async with Producer(**self._settings(way)) as producer:
                for value in values:
                    await producer.send(topic, value)

        _run(produce)

    def consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        async def consume() -> list[bytes]:
            options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
            async with Consumer(**self._settings(way, **options)) as consumer:
                consumer.subscribe([topic])
                found: list[bytes] = []
                async for record in consumer:
                    found.append(record.value or b"")
                    if len(found) == count:
                        break
                await consumer.commit()
                return found

        return _run(consume)

    def share_consume(self, way: Way, topic: str, group: str, count: int) -> list[bytes]:
        async def consume() -> list[bytes]:
            async with ShareConsumer(**self._settings(way, group_id=group)) as consumer:
                consumer.subscribe([topic])
                found: list[bytes] = []
                async for record in consumer:
                    found.append(record.value or b"")
                    if len(found) == count:
                        break
                return found

        return _run(consume)

    def kept_out(self, way: Way) -> str:
        async def try_it() -> None:
            async with Admin(**self._settings(way)) as admin:
                await admin.list_topics()

        try:
            _run(try_it)
        except SaslAuthenticationFailed:
            return AUTHENTICATION
        except TlsFailed:
            return TLS
        except Network:
            return CLOSED
        return ""

    @contextmanager
    def connected(self, way: Way, topic: str) -> Iterator[Callable[[], str]]:
        with asyncio.Runner() as runner:
            producer = runner.run(self._started(way))

            def produce() -> str:
                try:
                    runner.run(asyncio.wait_for(producer.send_and_wait(topic, b"x"), WAIT_S))
                except SaslAuthenticationFailed:
                    return AUTHENTICATION
                return ""

            try:
                yield produce
            finally:
                runner.run(producer.close())

    async def _started(self, way: Way) -> Producer:
        return await Producer(**self._settings(way)).start()


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work(), 2 * WAIT_S)

    return asyncio.run(bounded())


ALL: list[Callable[[], SecuredClient]] = [Confluent, KafkaPython, Aiokafka, Penstock]
