"""The Java side finds and runs Apache Kafka's tests, and survives a JVM that ends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bench.peers import process_tree
from tests.kafka_tests.catalog import TestMethod, choose
from tests.kafka_tests.jvm import WorkerJvm, build, find_tests

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
CLASS = "kafka.server.ApiVersionsRequestTest"


@pytest.fixture(scope="module")
def class_path() -> str:
    return build()


@pytest.fixture(scope="module")
def one_test(class_path: str) -> TestMethod:
    """A short test, which JUnit invokes twice."""
    choice = choose([f"{CLASS}#testApiVersionsRequestValidationV0"])
    return next(test for test in find_tests(class_path, [CLASS]) if choice.holds(test))


async def test_each_invocation_of_a_test_is_reported(class_path: str, one_test: TestMethod, tmp_path: Path) -> None:
    async with WorkerJvm(class_path, "penstock", tmp_path) as jvm:
        outcomes = await jvm.run(one_test)
    assert [(x.test, x.status) for x in outcomes] == [(f"{one_test.name}[{n}]", "PASS") for n in (1, 2)]


async def test_the_broker_of_a_jvm_that_is_stopped_ends_too(
    class_path: str, one_test: TestMethod, tmp_path: Path
) -> None:
    jvm = WorkerJvm(class_path, "penstock", tmp_path)
    running = asyncio.create_task(jvm.run(one_test))
    brokers = await asyncio.to_thread(children, jvm)
    await jvm.stop()
    await running
    assert not [pid for pid in brokers if is_alive(pid)]


def children(jvm: WorkerJvm) -> list[int]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if jvm.pid is not None and (found := process_tree(jvm.pid)[1:]):
            return found
        time.sleep(0.01)
    raise TimeoutError("the JVM started no broker")


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_jvm_that_ends_fails_its_test_and_is_replaced(one_test: TestMethod, tmp_path: Path) -> None:
    jvm = WorkerJvm("no-class-path", "penstock", tmp_path)
    for _ in range(2):
        assert [x.reason for x in await jvm.run(one_test)] == ["the JVM ended"]
