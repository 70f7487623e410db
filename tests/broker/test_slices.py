"""What people look at is made a little at a time, and once for all who look."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.broker.slices import Shared, in_slices
from penstock.broker.world import LoopWorld


async def test_a_pause_is_made_whenever_a_slice_of_time_is_over() -> None:
    clock, pauses = 0.0, 0

    def pieces() -> Iterator[bytes]:
        nonlocal clock
        for number in range(10):
            clock += 0.0004
            yield b"" if number == 5 else b"%d" % number

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    assert b"".join(await in_slices(pieces(), lambda: clock, pause)) == b"012346789"
    assert pauses == 3


async def test_those_who_look_at_the_same_time_share_what_is_made_and_later_ones_do_not() -> None:
    shared, made = Shared(LoopWorld(asyncio.get_running_loop())), []

    def make() -> Iterator[bytes]:
        made.append(1)
        yield b"windows"

    first = asyncio.ensure_future(shared.get("g", make))
    found = await asyncio.gather(first, shared.get("g", make), shared.get("other", make))
    assert list(found) == [[b"windows"]] * 3
    assert len(made) == 2
    while len(made) == 2:
        await asyncio.sleep(0.01)
        await shared.get("g", make)
    assert not shared._tasks


async def test_who_gives_up_waiting_takes_it_from_nobody_else() -> None:
    shared = Shared(LoopWorld(asyncio.get_running_loop()))
    impatient = asyncio.ensure_future(shared.get("g", lambda: iter([b"x"])))
    patient = asyncio.ensure_future(shared.get("g", lambda: iter([b"y"])))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == [b"x"]


async def test_what_fails_fails_for_those_who_look_and_not_for_later_ones() -> None:
    shared = Shared(LoopWorld(asyncio.get_running_loop()))

    def fail() -> Iterator[bytes]:
        yield b"half"
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await shared.get("g", fail)
    found: list[bytes] = []
    while not found:
        await asyncio.sleep(0.01)
        try:
            found = await shared.get("g", lambda: iter([b"x"]))
        except LookupError:
            continue
    assert found == [b"x"]


async def test_so_many_are_kept_and_no_more() -> None:
    shared = Shared(LoopWorld(asyncio.get_running_loop()))
    for number in range(100):
        await shared.get(str(number), lambda: iter([b"x"]))
    assert len(shared._bodies) <= 16
