"""A letter that is refused for now is tried again, less and less often, until it is written: once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.broker.share.dead_letters import ENABLE_CONFIG
from penstock.broker.share.live import LiveSharePartition
from penstock.broker.topics import Topic
from penstock.catalog.contract import replaced_by
from penstock.queues.dead_letters import OFFSET
from penstock.queues.settings import ShareSettings
from penstock.queues.transitions import DeadLetterCause, DeadLetterRange
from penstock.records.record import iter_records
from penstock.storage.contract import StorageError
from penstock.storage.memory import MemoryLog
from penstock.wire.errors import MessageTooLarge
from tests.broker.memory_parts import MemoryFoundation

REJECTED = DeadLetterRange(7, 8, 1, DeadLetterCause.REJECTED)
SECOND, MINUTE = 1000, 60_000


class Window:
    """As much of a share-partition as has dead letters."""

    def __init__(self, topic: Topic, settings: Callable[[], ShareSettings]) -> None:
        self.key = ("g", topic.topic_id, 0)
        self.group_id = "g"
        self.partition = topic.hosted(0)
        self.settings = settings
        self.is_closed = False
        self.archived: list[int] = []

    def finish_archiving(self, first: int, last: int) -> None:
        self.archived += range(first, last + 1)


class Stage:
    def __init__(self, **configs: str) -> None:
        self.foundation = MemoryFoundation()
        self.world, self.storage = self.foundation.world, self.foundation.storage
        self.parts = self.foundation.parts({name.replace("_", "."): value for name, value in configs.items()})
        self.parts.open()
        self.letters = self.parts.share_groups.dead_letters
        self.name_target("dlq.jobs")
        self.window = Window(self.parts.topics.create("jobs", 1, {}), self.settings)

    def settings(self) -> ShareSettings:
        return self.parts.share_groups.settings.settings("g")

    def name_target(self, topic: str) -> None:
        self.parts.configs.change_group("g", replaced_by({"errors.deadletterqueue.topic.name": topic}))

    def target(self, name: str = "dlq.jobs") -> MemoryLog:
        topic = self.parts.cluster.find_topic(name) or self.parts.topics.create(name, 1, {ENABLE_CONFIG: "true"})
        log = topic.hosted(0).log
        assert isinstance(log, MemoryLog)
        return log

    def bury(self) -> None:
        self.letters.bury(cast(LiveSharePartition, self.window), [REJECTED], self.settings())

    def written(self, name: str = "dlq.jobs") -> list[int]:
        """The offsets of the records that have a letter."""
        self.world.pass_ms(0)
        batches = self.target(name).batches()
        return [int(dict(each.headers)[OFFSET] or b"") for batch in batches for each in iter_records(batch, 0)]


def refusing(log: MemoryLog, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[int]:
    """Has every append fail; returns a list that gets an item for each."""
    refused: list[int] = []

    def refuse(*arguments: Any, **named: Any) -> None:
        refused.append(1)
        raise error

    monkeypatch.setattr(log, "append", refuse)
    return refused


def test_letters_that_a_full_disk_refuses_are_written_when_it_has_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    with monkeypatch.context() as full:
        refused = refusing(stage.target(), full, StorageError("no space left on device"))
        stage.bury()
        stage.world.pass_ms(10 * MINUTE)
        assert stage.window.archived == []
        assert 10 < len(refused) < 30  # half a second apart at first, later half a minute
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]
    assert stage.letters.records["g"] == 2


def test_a_topic_that_will_never_take_a_letter_does_not_hold_up_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    refused = refusing(stage.target(), monkeypatch, MessageTooLarge())
    stage.bury()
    assert stage.window.archived == [7, 8]
    assert (len(refused), stage.letters.failures["g"]) == (1, 1)


def test_letters_go_to_the_next_leader_when_this_one_loses_its_office_just_before_the_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    log = stage.target()
    append = log.append

    def lose_office(*arguments: Any, **named: Any) -> Any:
        stage.storage.lose_leadership(log)
        return append(*arguments, **named)

    monkeypatch.setattr(log, "append", lose_office)
    stage.bury()
    stage.world.pass_ms(2 * SECOND)
    assert stage.window.archived == []
    monkeypatch.undo()
    stage.storage.gain_leadership(log)
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]


def test_letters_that_are_lost_after_the_append_are_written_again() -> None:
    stage = Stage()
    log = stage.target()
    stage.storage.hold_commits()
    stage.bury()
    stage.storage.lose_leadership(log)
    stage.storage.commit()
    stage.storage.gain_leadership(log)
    assert stage.written() == []
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]


def test_letters_are_not_written_twice_when_only_the_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    log = stage.target()
    stage.storage.hold_commits()
    stage.bury()
    log.commit()  # the next leader finds them, and this one hears that it has lost its office
    stage.storage.lose_leadership(log)
    stage.world.pass_ms(0)
    stage.storage.gain_leadership(log)
    stage.storage.commit()
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]


def test_a_leader_that_loses_its_office_while_it_looks_for_letters_looks_again() -> None:
    stage = Stage()
    log = stage.target()
    stage.bury()
    assert stage.written() == [7, 8]
    stage.window.archived.clear()
    log.is_leader = False  # nobody has noticed yet
    stage.letters.resume(cast(LiveSharePartition, stage.window), [REJECTED], stage.settings())
    assert stage.window.archived == []
    log.is_leader = True
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]


def test_whoever_names_another_topic_frees_the_letters_that_wait_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    refusing(stage.target(), monkeypatch, StorageError("no space left on device"))
    stage.target("dlq.other")
    stage.bury()
    stage.world.pass_ms(MINUTE)
    assert stage.window.archived == []
    stage.name_target("dlq.other")
    stage.world.pass_ms(MINUTE)
    assert stage.written("dlq.other") == [7, 8]
    assert stage.window.archived == [7, 8]


def test_letters_wait_for_a_topic_that_cannot_be_created_for_now() -> None:
    stage = Stage(errors_deadletterqueue_auto_create_topics_enable="true")
    stage.foundation.catalog.refuse_changes("the server restarts")
    stage.bury()
    stage.world.pass_ms(MINUTE)
    assert stage.window.archived == []
    stage.foundation.catalog.accept_changes()
    stage.world.pass_ms(MINUTE)
    assert stage.written() == [7, 8]
    assert stage.window.archived == [7, 8]


def test_a_window_that_is_gone_tries_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    refused = refusing(stage.target(), monkeypatch, StorageError("no space left on device"))
    stage.bury()
    stage.window.is_closed = True
    stage.world.pass_ms(10 * MINUTE)
    assert len(refused) == 1
