from __future__ import annotations

from typing import Any

import pytest

from penstock.coordination.effects import CoordinatorRecord, Effects, TransactionalProducer
from penstock.coordination.runtime import CoordinatorRuntime, ShardHandle
from penstock.records.batch import iter_headers
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch
from penstock.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    KafkaStorageError,
    NotCoordinator,
    RecordListTooLarge,
)
from tests.coordination.simulated import SimulatedLog, SimulatedTime, SimulatedTopic

NO_DISK = KafkaStorageError("the disk is full")


class Notes:
    """A shard that remembers notes by key, and rings when its deadline has come: `failing_ticks` times in vain."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.notes: dict[bytes, bytes | None] = {}
        self.producers: list[int] = []
        self.ended: list[tuple[int, bool]] = []
        self.deadline_ms: int | None = None
        self.rang_at_ms: list[int] = []
        self.written_ms: list[int] = []
        self.on_loaded = Effects()
        self.parked: list[str] = []
        self.failing_ticks = 0
        self.loaded_at_ms = 0
        self.failed_effects: list[Effects] = []

    def note(self, key: bytes, value: bytes, answers: list[str], **fields: Any) -> Effects:
        effects = Effects([CoordinatorRecord(key, value)], **fields)
        effects.reply(answers.append, "noted", lambda error: error.name)
        return effects

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1, *, written_ms: int) -> None:
        if key == b"bad":
            raise ValueError("not a note")
        self.written_ms.append(written_ms)
        self.notes[key] = value
        self.producers.append(producer_id)

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        self.ended.append((producer_id, commit))

    def loaded(self, now_ms: int) -> Effects:
        self.loaded_at_ms = now_ms
        return self.on_loaded

    def tick(self, now_ms: int) -> Effects:
        self.rang_at_ms.append(now_ms)
        if self.failing_ticks:
            self.failing_ticks -= 1
            raise RuntimeError("not now")
        self.deadline_ms = None
        return Effects()

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def unload(self, error: ErrorCode) -> Effects:
        effects = Effects()
        effects.reply(self.parked.append, error.name, lambda error: error.name)
        return effects

    def append_failed(self, effects: Effects, error: ErrorCode) -> Effects:
        self.failed_effects.append(effects)
        others = Effects()
        others.reply(self.parked.append, error.name, lambda error: error.name)
        return others


class World:
    """A runtime of `Notes`, and all that it touches."""

    def __init__(self, topic: SimulatedTopic | None = None, *, actions_wait: bool = False) -> None:
        self.time = SimulatedTime()
        self.topic = topic or SimulatedTopic()
        self.acted: list[object] = []
        self.actors: list[int] = []
        self.answers: list[str] = []
        self.on_loaded = Effects()
        self.runtime: CoordinatorRuntime[Notes] = CoordinatorRuntime(
            self.time, self.topic, self._shard, self._act, actions_wait=actions_wait
        )

    def _act(self, handle: ShardHandle[Notes], action: object) -> None:
        self.actors.append(handle.index)
        self.acted.append(action)

    def _shard(self, index: int) -> Notes:
        shard = Notes(index)
        shard.on_loaded = self.on_loaded
        return shard

    def handle(self) -> ShardHandle[Notes]:
        return self.runtime.find("anything")

    @property
    def log(self) -> SimulatedLog:
        assert self.topic.logs is not None
        return self.topic.logs[self.runtime.partition_for("anything")]


def restarted(before: World) -> World:
    world = World(before.topic)
    world.runtime.start()
    return world


def restarted_handle(before: World) -> ShardHandle[Notes]:
    world = restarted(before)
    world.time.run_tasks()
    return world.handle()


def test_the_topic_is_created_on_first_use() -> None:
    world = World()
    world.runtime.start()
    assert world.topic.logs is None
    world.handle()
    assert world.topic.logs is not None


def test_a_command_is_in_the_log_and_in_memory_and_then_answered() -> None:
    world = World()
    handle = world.handle()
    assert handle.run(handle.shard.note(b"k", b"v", world.answers))
    assert handle.shard.notes == {b"k": b"v"}
    assert world.log.log_end_offset == 1
    assert world.answers == ["noted"]


def test_the_answer_waits_until_the_records_are_durable() -> None:
    world = World()
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    assert handle.shard.notes == {b"k": b"v"}
    assert world.answers == []
    world.log.sync()
    assert world.answers == ["noted"]


def test_an_answer_that_need_not_wait_goes_out_at_once() -> None:
    world = World()
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(handle.shard.note(b"k", b"v", world.answers, replies_wait=False))
    assert world.answers == ["noted"]


def test_nothing_is_replayed_when_the_log_refuses_and_everybody_is_told() -> None:
    world = World()
    handle = world.handle()
    world.log.failure = NO_DISK
    assert not handle.run(handle.shard.note(b"k", b"v", world.answers))
    assert handle.shard.notes == {}
    assert world.answers == ["COORDINATOR_NOT_AVAILABLE"]
    assert handle.shard.parked == ["COORDINATOR_NOT_AVAILABLE"]
    assert [effects.records for effects in handle.shard.failed_effects] == [[CoordinatorRecord(b"k", b"v")]]


def test_nobody_is_told_to_try_again_what_will_never_fit() -> None:
    world = World()
    handle = world.handle()
    world.log.failure = RecordListTooLarge()
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    assert world.answers == ["UNKNOWN_SERVER_ERROR"]


def test_a_disk_that_fails_after_the_append_makes_the_answer_an_error() -> None:
    world = World()
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    world.log.sync(NO_DISK)
    assert world.answers == ["COORDINATOR_NOT_AVAILABLE"]


@pytest.mark.parametrize("waits", [False, True])
def test_actions_wait_for_the_disk_where_they_must(waits: bool) -> None:
    world = World(actions_wait=waits)
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(Effects([CoordinatorRecord(b"k", b"v")], actions=["act"]))
    assert world.acted == ([] if waits else ["act"])
    world.log.sync()
    assert (world.acted, world.actors) == (["act"], [world.log.index])


def test_an_answer_from_memory_that_asks_for_nothing_waits_for_no_disk() -> None:
    """Only the actions wait, where they have to; a log that cannot lose anything holds up no reader."""
    world = World(actions_wait=True)
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    reading = Effects()
    reading.reply(world.answers.append, "read", lambda error: error.name)
    handle.run(reading)
    assert world.answers == ["read"]


def test_an_action_without_records_waits_for_the_disk_too() -> None:
    world = World(actions_wait=True)
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    handle.run(Effects(actions=["act"]))
    assert world.acted == []
    world.log.sync()
    assert (world.acted, world.actors) == (["act"], [handle.index])


def test_records_inside_a_transaction_are_known_by_their_producer() -> None:
    world = World()
    handle = world.handle()
    handle.run(Effects([CoordinatorRecord(b"k", b"v")], transaction=TransactionalProducer(7, 3)))
    handle.run(Effects([CoordinatorRecord(b"l", b"v")]))
    assert handle.shard.producers == [7, -1]
    assert restarted_handle(world).shard.producers == [7, -1]
    headers = [next(iter_headers(batch))[1] for batch in world.log.batches]
    written = [(header.is_transactional, header.producer_id, header.producer_epoch) for header in headers]
    assert written == [(True, 7, 3), (False, -1, -1)]


def test_records_of_an_idempotent_producer_belong_to_no_transaction() -> None:
    world = World()
    world.handle()
    world.log.append(build_batch([(0, b"k", b"v", ())], producer_id=7, producer_epoch=0), 0)
    assert restarted_handle(world).shard.producers == [-1]


def test_memory_after_a_restart_is_memory_before_it() -> None:
    world = World()
    handle = world.handle()
    for number in range(3):
        handle.run(handle.shard.note(b"%d" % number, b"v", world.answers))
    handle.run(Effects([CoordinatorRecord(b"1", None)]))
    assert restarted_handle(world).shard.notes == {b"0": b"v", b"1": None, b"2": b"v"}


def test_a_shard_learns_when_each_record_was_written() -> None:
    world = World()
    handle = world.handle()
    before = world.time.now_ms()
    handle.run(handle.shard.note(b"a", b"v", world.answers))
    world.time.pass_ms(5_000)
    handle.run(handle.shard.note(b"b", b"v", world.answers))
    assert handle.shard.written_ms == [before, before + 5_000]
    assert world.log.appended_ms == before + 5_000
    world.time.pass_ms(5_000)
    assert restarted_handle(world).shard.written_ms == [before, before + 5_000]


def test_the_end_of_a_transaction_is_replayed() -> None:
    world = World()
    world.handle()
    world.log.append(end_marker_batch(ControlType.COMMIT, 7, 0, 0, 0), 0)
    assert restarted_handle(world).shard.ended == [(7, True)]


def test_commands_are_refused_until_the_shard_is_loaded() -> None:
    before = World()
    before.handle().run(Effects([CoordinatorRecord(b"k", b"v")]))
    world = restarted(before)
    loaded: list[str] = []
    world.runtime.when_loaded(lambda: loaded.append("loaded"))
    with pytest.raises(CoordinatorLoadInProgress):
        world.handle()
    assert (world.runtime.is_loading, loaded) == (True, [])
    world.time.run_tasks()
    assert (world.runtime.is_loading, loaded) == (False, ["loaded"])
    world.runtime.when_loaded(lambda: loaded.append("at once"))
    assert loaded == ["loaded", "at once"]


def test_a_record_that_cannot_be_read_is_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    before = World()
    before.handle()
    for key in (b"good", b"bad", b"better"):
        before.log.append(build_batch([(0, key, b"v", ())]), 0)
    world = restarted(before)
    world.time.run_tasks()
    assert world.handle().shard.notes == {b"good": b"v", b"better": b"v"}
    assert world.runtime.skipped_records == 1
    assert f"skipped offset 1 of __state-{before.log.index}: not a note" in caplog.text


def test_what_is_read_at_once_is_replayed_batch_by_batch() -> None:
    before = World()
    handle = before.handle()
    handle.run(handle.shard.note(b"a", b"1", before.answers))
    before.log.append(end_marker_batch(ControlType.ABORT, 7, 0, 0, 0), 0)
    handle.run(handle.shard.note(b"b", b"2", before.answers))
    before.log.append(end_marker_batch(ControlType.COMMIT, 8, 0, 0, 0), 0)

    async def all_of_it(offset: int, max_bytes: int) -> bytes:
        assert offset == 0
        return b"".join(before.log.batches)

    before.log.read = all_of_it  # type: ignore[method-assign]
    shard = restarted_handle(before).shard
    assert shard.notes == {b"a": b"1", b"b": b"2"}
    assert shard.ended == [(7, False), (8, True)]


def test_broken_batches_are_left_out_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    before = World()
    before.handle()
    for key in (b"good", b"torn", b"torn too", b"better"):
        before.log.append(build_batch([(0, key, b"v", ())]), 0)
    for index in (1, 2):
        batch = before.log.batches[index]
        before.log.batches[index] = batch[:61] + b"\xff" * (len(batch) - 61)
    world = restarted(before)
    world.time.run_tasks()
    assert world.handle().shard.notes == {b"good": b"v", b"better": b"v"}
    assert world.runtime.skipped_records == 2
    assert f"skipped offset 1 of __state-{before.log.index}: " in caplog.text
    assert "None" not in caplog.text


def test_a_log_is_loaded_slice_by_slice_and_the_time_it_takes_is_known() -> None:
    before = World()
    handle = before.handle()
    for number in range(3):
        handle.run(handle.shard.note(b"%d" % number, b"v", before.answers))
    world = restarted(before)
    started_ms = world.time.now_ms()
    reads = before.log.read

    async def slow_read(offset: int, max_bytes: int) -> bytes:
        world.time.pass_ms(20)
        return await reads(offset, max_bytes)

    before.log.read = slow_read  # type: ignore[method-assign]
    assert world.runtime.loads.average_ms == 0
    world.time.run_tasks()
    assert before.log.read_bytes_max == 256 << 10
    assert world.handle().shard.loaded_at_ms == started_ms + 60
    loads = world.runtime.loads
    assert (loads.count, loads.total_ms, loads.longest_ms, loads.average_ms) == (1, 60, 60, 60)
    loads.add(20)
    assert (loads.count, loads.total_ms, loads.longest_ms, loads.average_ms) == (2, 80, 60, 40)


def test_logs_of_other_leaders_are_passed_over() -> None:
    before = World(SimulatedTopic(3))
    before.runtime.ensure_topic()
    assert before.topic.logs is not None
    for index in range(3):
        handle = before.runtime.handle(index)
        handle.run(handle.shard.note(b"k", b"v", before.answers))
    before.topic.logs[1].is_leader = False
    world = restarted(before)
    world.time.run_tasks()
    assert [handle.index for handle in world.runtime.loaded_handles()] == [0, 2]
    assert [handle.shard.index for handle in world.runtime.loaded_handles()] == [0, 2]
    assert not world.runtime.is_loading
    with pytest.raises(NotCoordinator):
        world.runtime.handle(1)


def test_a_shard_whose_log_cannot_be_read_holds_up_no_other() -> None:
    before = World()
    for name in ("a", "b", "c", "d"):
        handle = before.runtime.find(name)
        handle.run(handle.shard.note(b"k", b"v", before.answers))
    before.log.failure = NO_DISK
    world = restarted(before)
    world.time.run_tasks()
    assert [handle.index for handle in world.runtime.loaded_handles()] == [1 - before.log.index]
    with pytest.raises(CoordinatorLoadInProgress):
        world.handle()


def test_a_log_that_could_not_be_read_is_read_again_from_the_beginning() -> None:
    before = World()
    handle = before.handle()
    handle.run(handle.shard.note(b"k", b"v", before.answers))
    before.log.failure = NO_DISK
    world = restarted(before)
    waited: list[str] = []
    world.runtime.when_loaded(lambda: waited.append("until it was loaded"))
    for _ in range(3):
        world.time.run_tasks()
        world.time.pass_ms(60_000)
    before.log.failure = None
    world.time.run_tasks()
    assert world.handle().shard.notes == {b"k": b"v"}
    assert waited == ["until it was loaded"]
    assert world.handle().shard.index == before.log.index
    assert (world.runtime.loads.count, world.runtime.loads.total_ms) == (1, 0)


def test_the_pauses_between_attempts_to_read_a_log_grow(caplog: pytest.LogCaptureFixture) -> None:
    before = World(SimulatedTopic(1))
    handle = before.handle()
    handle.run(handle.shard.note(b"k", b"v", before.answers))
    world = World(before.topic)
    start_ms = world.time.now_ms()
    attempts: list[int] = []

    async def failing_read(offset: int, max_bytes: int) -> bytes:
        attempts.append((world.time.now_ms() - start_ms) // 1000)
        raise NO_DISK

    before.log.read = failing_read  # type: ignore[method-assign]
    world.runtime.start()
    for _ in range(150):
        world.time.run_tasks()
        world.time.pass_ms(1_000)
    assert attempts == [0, 2, 6, 14, 30, 62, 122]
    assert "cannot load __state-0; it is tried again in 2 seconds" in [record.message for record in caplog.records]
    assert world.runtime.loaded_count == 0


def test_what_waited_for_the_load_and_fails_is_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    before = World()
    before.handle().run(Effects([CoordinatorRecord(b"k", b"v")]))
    world = restarted(before)

    def fail() -> None:
        raise RuntimeError("gone")

    world.runtime.when_loaded(fail)
    world.time.run_tasks()
    assert "what waited until __state was loaded failed" in caplog.text


def test_what_follows_from_loading_is_tried_again_until_it_is_written() -> None:
    topic = SimulatedTopic(1)
    [log] = topic.create()
    log.failure = NO_DISK
    world = World(topic)
    world.on_loaded = Effects([CoordinatorRecord(b"session", b"over")])
    world.runtime.start()
    with pytest.raises(CoordinatorLoadInProgress):
        world.handle()
    log.failure = None
    world.time.pass_ms(1_000)
    assert world.handle().shard.notes == {b"session": b"over"}


def test_a_shard_is_called_when_its_deadline_has_come() -> None:
    world = World()
    handle = world.handle()
    start_ms = world.time.now_ms()
    handle.shard.deadline_ms = start_ms + 500
    handle.run(Effects())
    handle.shard.deadline_ms = start_ms + 200
    handle.run(Effects())
    world.time.pass_ms(1_000)
    assert handle.shard.rang_at_ms == [start_ms + 200]


def test_a_deadline_that_has_passed_is_now_and_the_same_one_is_one_timer() -> None:
    world = World()
    handle = world.handle()
    handle.shard.deadline_ms = world.time.now_ms() - 5_000
    for _ in range(3):
        handle.run(Effects())
    assert world.time.timers_set == 1
    world.time.pass_ms(0)
    assert handle.shard.rang_at_ms == [world.time.now_ms()]
    handle.run(Effects())
    world.time.pass_ms(10_000)
    assert len(handle.shard.rang_at_ms) == 1


def test_a_deadline_that_is_taken_back_does_not_ring() -> None:
    world = World()
    handle = world.handle()
    handle.shard.deadline_ms = world.time.now_ms() + 500
    handle.run(Effects())
    handle.shard.deadline_ms = None
    handle.run(Effects())
    world.time.pass_ms(1_000)
    assert handle.shard.rang_at_ms == []


def test_a_deadline_after_one_that_was_taken_back_rings() -> None:
    world = World()
    handle = world.handle()
    start_ms = world.time.now_ms()
    for deadline_ms in (start_ms + 500, None, start_ms + 700):
        handle.shard.deadline_ms = deadline_ms
        handle.run(Effects())
    world.time.pass_ms(1_000)
    assert handle.shard.rang_at_ms == [start_ms + 700]


def test_what_has_stopped_can_be_stopped_again() -> None:
    before = World()
    handle = before.handle()
    handle.shard.deadline_ms = before.time.now_ms() + 500
    handle.run(handle.shard.note(b"k", b"v", before.answers))
    before.runtime.stop()
    before.runtime.stop()
    loading = restarted(before)
    loading.topic.refuse(before.log)
    loading.runtime.stop()
    loading.topic.refuse(before.log)
    loading.topic.delete()
    loading.runtime.stop()
    loading.time.run_tasks()
    assert loading.runtime.loaded_handles() == []


def test_nobody_is_asked_about_lost_records_for_which_nobody_waits() -> None:
    world = World(actions_wait=True)
    handle = world.handle()
    world.log.syncs_at_once = False
    handle.run(Effects([CoordinatorRecord(b"k", b"v")]))
    world.log.sync(NO_DISK)
    assert handle.shard.failed_effects == []


def test_actions_happen_at_once_unless_they_are_to_wait() -> None:
    acted: list[object] = []
    topic = SimulatedTopic(1)
    runtime = CoordinatorRuntime(SimulatedTime(), topic, Notes, lambda handle, action: acted.append(action))
    handle = runtime.find("anything")
    assert topic.logs is not None
    topic.logs[0].syncs_at_once = False
    handle.run(Effects([CoordinatorRecord(b"k", b"v")], actions=["act"]))
    assert acted == ["act"]


def test_a_timer_that_fails_is_tried_again_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    handle = world.handle()
    start_ms = world.time.now_ms()
    handle.shard.deadline_ms, handle.shard.failing_ticks = start_ms + 100, 2
    handle.run(Effects())
    world.time.pass_ms(5_000)
    assert handle.shard.rang_at_ms == [start_ms + 100, start_ms + 1_100, start_ms + 2_100]
    assert f"the timer of __state-{handle.index} failed" in caplog.text


def test_a_timer_that_fails_after_the_stop_stays_silent() -> None:
    world = World()
    handle = world.handle()
    handle.shard.deadline_ms, handle.shard.failing_ticks = world.time.now_ms(), 1
    tick = handle.shard.tick

    def stop_and_fail(now_ms: int) -> Effects:
        world.runtime.stop()
        return tick(now_ms)

    handle.shard.tick = stop_and_fail  # type: ignore[method-assign]
    handle.run(Effects())
    world.time.pass_ms(5_000)
    assert len(handle.shard.rang_at_ms) == 1


def test_no_timer_fires_after_the_stop() -> None:
    world = World()
    handle = world.handle()
    handle.shard.deadline_ms = world.time.now_ms() + 500
    handle.run(Effects())
    world.runtime.stop()
    world.time.pass_ms(1_000)
    assert handle.shard.rang_at_ms == []
    assert handle.run(handle.shard.note(b"k", b"v", world.answers))
    world.time.pass_ms(1_000)
    assert handle.shard.rang_at_ms == []


def test_answers_and_actions_that_fail_are_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    handle = world.handle()

    def fail(_: object) -> None:
        raise RuntimeError("gone")

    world.acted = None  # type: ignore[assignment]
    effects = handle.shard.note(b"k", b"v", world.answers)
    effects.actions.append("act")
    effects.reply(fail, "x", lambda error: error.name)
    effects.reply(world.answers.append, "after it", lambda error: error.name)
    handle.run(effects)
    world.runtime.refuse(effects)
    world.log.failure = NO_DISK
    handle.run(effects)
    assert world.answers == ["noted", "after it"] + ["NOT_COORDINATOR"] * 2 + ["COORDINATOR_NOT_AVAILABLE"] * 2
    named = [record.message for record in caplog.records if record.message.endswith(" failed")]
    assert named == [f"an action of __state-{handle.index} failed"] + ["an answer of __state failed"] * 3


def test_a_deleted_topic_takes_its_state_along() -> None:
    world = World()
    handle = world.handle()
    handle.run(handle.shard.note(b"k", b"v", world.answers))
    world.topic.delete()
    assert world.runtime.loaded_handles() == []
    assert world.handle().shard.notes == {}


class TestLosing:
    """Logs whose tail can be lost while the broker runs on."""

    def world(self) -> World:
        world = World()
        handle = world.handle()
        for log in world.topic.logs or []:
            log.can_lose_appends = True
        handle.run(handle.shard.note(b"kept", b"v", world.answers))
        world.answers.clear()
        world.log.syncs_at_once = False
        return world

    def test_who_waits_is_sent_away_and_nobody_is_served_until_the_log_is_back(self) -> None:
        world = self.world()
        before = world.handle()
        before.run(before.shard.note(b"lost", b"v", world.answers))
        world.topic.lose(world.log)
        assert world.answers == ["NOT_COORDINATOR"]
        assert before.shard.parked == ["NOT_COORDINATOR"]
        with pytest.raises(NotCoordinator):
            world.handle()
        assert not world.runtime.is_loading
        world.topic.gain(world.log)
        with pytest.raises(CoordinatorLoadInProgress):
            world.handle()
        world.time.run_tasks()
        assert world.handle().shard.notes == {b"kept": b"v"}
        assert world.handle().shard is not before.shard

    def test_a_refused_append_throws_memory_away(self) -> None:
        world = self.world()
        before = world.handle()
        before.run(before.shard.note(b"lost", b"v", world.answers))
        world.topic.refuse(world.log)
        assert world.answers == ["COORDINATOR_NOT_AVAILABLE"]
        world.time.run_tasks()
        assert world.handle().shard.notes == {b"kept": b"v"}

    def test_what_refers_to_a_shard_that_was_given_up_is_refused_and_its_timer_is_silent(self) -> None:
        world = self.world()
        before = world.handle()
        before.shard.deadline_ms = world.time.now_ms() + 100
        before.run(Effects())
        world.topic.lose(world.log)
        assert not before.run(before.shard.note(b"late", b"v", world.answers))
        assert world.answers == ["NOT_COORDINATOR"]
        assert world.log.log_end_offset == 1
        world.time.pass_ms(1000)
        assert before.shard.rang_at_ms == []

    @pytest.mark.parametrize("replies_wait", [True, False])
    def test_a_command_that_writes_nothing_waits_for_those_before_it(self, replies_wait: bool) -> None:
        world = self.world()
        handle = world.handle()
        handle.run(handle.shard.note(b"k", b"v", world.answers, replies_wait=replies_wait))
        reading = Effects(replies_wait=replies_wait)
        reading.reply(world.answers.append, "read", lambda error: error.name)
        handle.run(reading)
        assert world.answers == []
        world.log.sync()
        assert world.answers == ["noted", "read"]

    def test_answers_from_memory_learn_when_it_is_settled_and_when_it_is_not(self) -> None:
        world = self.world()
        outcomes: list[str] = []
        world.runtime.when_settled(lambda failure: outcomes.append(type(failure).__name__))
        assert outcomes == ["NoneType"]
        handle = world.handle()
        handle.run(handle.shard.note(b"k", b"v", world.answers))
        world.runtime.when_settled(lambda failure: outcomes.append(type(failure).__name__))
        assert outcomes == ["NoneType"]
        world.topic.lose(world.log)
        assert outcomes == ["NoneType", "NotLeaderOrFollower"]

    def test_answers_from_memory_wait_for_every_log(self) -> None:
        world = self.world()
        assert world.topic.logs is not None
        outcomes: list[Exception | None] = []
        for index, log in enumerate(world.topic.logs):
            log.syncs_at_once = False
            handle = world.runtime.handle(index)
            handle.run(handle.shard.note(b"k", b"v", world.answers))
        world.runtime.when_settled(outcomes.append)
        world.topic.logs[0].sync()
        assert outcomes == []
        world.topic.logs[1].sync()
        assert outcomes == [None]

    def test_one_failure_settles_it_once(self) -> None:
        world = self.world()
        assert world.topic.logs is not None
        outcomes: list[Exception | None] = []
        for index, log in enumerate(world.topic.logs):
            log.syncs_at_once = False
            handle = world.runtime.handle(index)
            handle.run(handle.shard.note(b"k", b"v", world.answers))
        world.runtime.when_settled(outcomes.append)
        world.topic.logs[0].sync(NO_DISK)
        world.topic.logs[1].sync()
        assert outcomes == [NO_DISK]

    def test_whatever_was_derived_from_a_lost_shard_is_void(self) -> None:
        world = self.world()
        given_up: list[int] = []
        world.runtime.on_given_up = given_up.append
        before = world.handle()
        world.topic.refuse(world.log)
        assert given_up == [world.log.index]
        assert not before.is_loaded
        assert before.shard.parked == ["COORDINATOR_NOT_AVAILABLE"]
        world.time.run_tasks()
        assert world.handle().shard.index == world.log.index

    def test_news_of_a_partition_that_is_not_in_use_yet_changes_nothing(self) -> None:
        """The topic has grown; ids do not move while the broker runs."""
        world = self.world()
        before = world.runtime.loaded_handles()
        world.topic.gain(SimulatedLog(2))
        assert world.runtime.loaded_handles() == before

    def test_the_log_that_leads_is_that_of_the_topic(self) -> None:
        """The topic may have been opened anew since the shard was made."""
        world = self.world()
        assert world.topic.logs is not None
        index = world.log.index
        world.topic.logs[index] = replacement = SimulatedLog(index)
        replacement.append(build_batch([(0, b"new", b"v", ())]), 0)
        world.topic.gain(replacement)
        world.time.run_tasks()
        assert world.handle().shard.notes == {b"new": b"v"}

    def test_a_topic_that_cannot_be_found_keeps_its_log(self) -> None:
        world = self.world()
        log, world.topic.logs = world.log, None
        world.topic.refuse(log)
        world.time.run_tasks()
        assert world.handle().shard.notes == {b"kept": b"v"}

    def test_a_log_that_is_lost_while_it_is_loaded_is_loaded_when_it_is_back(self) -> None:
        before = self.world()
        world = World(before.topic)
        world.runtime.start()
        world.topic.lose(before.log)
        world.time.run_tasks()
        with pytest.raises(NotCoordinator):
            world.handle()
        world.topic.gain(before.log)
        world.time.run_tasks()
        assert world.handle().shard.notes == {b"kept": b"v"}

    def test_actions_of_a_shard_that_was_given_up_do_not_happen(self) -> None:
        world = World(actions_wait=True)
        handle = world.handle()
        world.log.syncs_at_once = False
        effects = handle.shard.note(b"k", b"v", world.answers)
        effects.actions.append("act")
        handle.run(effects)
        handle.give_up()
        world.log.sync()
        assert (world.answers, world.acted) == (["noted"], [])
