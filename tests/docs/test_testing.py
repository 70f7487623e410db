"""docs/how-to/testing.md: its tests are run by pytest, its other programs in a loop that allows `await` at the top."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import Producer
from penstock.testing import AsyncBroker, VirtualClock
from tests.docs.blocks import Blocks, carries_out
from tests.docs.reader import WAIT_SECONDS

PYTEST, USERS, ALONE = "With pytest", "With users, TLS and rules", "Without pytest"
FAULTS, MEMORY, TIME = "Faults on purpose", "Without files and sockets", "Time"
WORLD = "Your programs in a simulated world"


async def run(program: str, **names: object) -> dict[str, object]:
    """Run a part of a program that awaits at its top level."""
    code = compile(program, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    coroutine = eval(code, names)
    if inspect.iscoroutine(coroutine):
        await asyncio.wait_for(coroutine, WAIT_SECONDS)
    return names


def passed(folder: Path, tests: str) -> int:
    """How many tests of a module pass, in a pytest of their own; none may fail."""
    (folder / "test_page.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS * 2)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(re.findall(r"(\d+) passed", done.stdout)[0])


@carries_out("how-to/testing.md", PYTEST, USERS)
def test_the_tests_of_the_page_pass(tmp_path: Path, blocks: Blocks) -> None:
    programs = [block.text for block in blocks]
    assert passed(tmp_path, "import pytest\n" + "\n".join(programs)) == len(programs)
    blocks.done.extend(blocks)


@pytest.mark.timeout(300)
@carries_out("how-to/testing.md", WORLD)
def test_the_simulated_world_of_the_page_is_billed(tmp_path: Path, blocks: Blocks) -> None:
    (block,) = blocks
    assert passed(tmp_path, block.text) == 1
    blocks.done.append(block)


@carries_out("how-to/testing.md", ALONE)
async def test_brokers_without_pytest(blocks: Blocks) -> None:
    (block,) = blocks
    names = await run(block.text)
    assert isinstance(names["broker"], AsyncBroker)
    blocks.done.append(block)


@carries_out("how-to/testing.md", FAULTS)
async def test_faults_are_met(blocks: Blocks) -> None:
    (block,) = blocks
    async with AsyncBroker() as broker:
        broker.create_topic("orders")

        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            assert "\n...\n" in block.text
            program = block.text.replace("\n...\n", '\nawait producer.send_and_wait("orders", "one")\n')
            await run(program, broker=broker, producer=producer)
    blocks.done.append(block)


@carries_out("how-to/testing.md", MEMORY)
async def test_a_broker_in_memory_is_spoken_to(blocks: Blocks) -> None:
    (block,) = blocks
    names = await run(block.text)
    assert [topic.name for topic in names["metadata"].topics] == ["orders"]  # type: ignore[attr-defined]
    blocks.done.append(block)


class Shard:
    """A machine with deadlines at which it says so."""

    def __init__(self) -> None:
        self.deadlines = [VirtualClock().now_ms + seconds * 1000 for seconds in (10, 40, 60)]

    def next_deadline_ms(self) -> int | None:
        return self.deadlines[0]

    def tick(self, now_ms: int) -> int:
        assert now_ms == self.deadlines.pop(0)
        return now_ms


@carries_out("how-to/testing.md", TIME)
async def test_time_passes_at_will(blocks: Blocks) -> None:
    (block,) = blocks
    names = await run(block.text, group_shard=Shard())
    begun = VirtualClock().now_ms
    assert names["effects"] == [begun + 10_000, begun + 40_000]
    blocks.done.append(block)
