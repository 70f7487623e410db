"""In which order logs are loaded that this broker has come to lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.log.files import OpenFiles
from penstock.storage.objects.commit_log import Layout, PartitionKey
from penstock.storage.objects.loader import Loader
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.memory_commit_log import MemoryCommitLog
from penstock.storage.objects.storage import EngineSettings
from penstock.storage.objects.takeover import Loaded, OnFailed, OnLoaded
from penstock.threads import THREADS
from tests.storage.objects.test_storage import until
from tests.storage.test_contract import TOPIC_ID


class Stage:
    """Whatever is to be loaded is loaded at once, and noted."""

    def __init__(self) -> None:
        self.commits = MemoryCommitLog()
        self.portions: list[list[ObjectLog]] = []
        self.led: list[ObjectLog] = []
        self.held: dict[ObjectLog, tuple[OnLoaded, OnFailed]] | None = None
        """The logs whose loading goes on until the test ends it, if it wants to."""
        self.meanwhile: Callable[[], None] = lambda: None
        self.loader = Loader(
            self.commits,
            EngineSettings(1),
            lambda log: log.topic.startswith("__"),
            self._begin,
            lambda loaded: self.led.append(loaded.log),
            lambda function: function(),
            THREADS,
        )

    def _begin(self, logs: Sequence[tuple[ObjectLog, Layout]], done: OnLoaded, failed: OnFailed) -> None:
        self.portions.append([log for log, _ in logs])
        self.meanwhile()
        for log, layout in logs:
            if self.held is not None:
                self.held[log] = done, failed
                continue
            done(Loaded(log, log, layout.extents))

    def logs(self, topic: str, count: int, topic_id: bytes = TOPIC_ID) -> list[ObjectLog]:
        logs = [ObjectLog(Path(f"{topic}-{at}"), topic, at, topic_id, LogConfig(), OpenFiles()) for at in range(count)]
        for log in logs:
            self.commits.create(PartitionKey(topic_id, log.partition))
        return logs


def test_logs_of_internal_topics_come_first_and_the_others_some_at_a_time() -> None:
    stage = Stage()
    others, internal = stage.logs("t", 1100), stage.logs("__internal", 3, bytes(16))
    stage.loader.load_now(*others, *internal)
    assert stage.portions[0] == internal
    assert [len(portion) for portion in stage.portions[1:]] == [500, 500, 100]
    assert set(stage.led) == {*others, *internal}


def test_a_log_that_is_added_meanwhile_does_not_wait_for_all_others() -> None:
    stage = Stage()
    others, late = stage.logs("t", 1100), stage.logs("__internal", 1, bytes(16))

    def add() -> None:
        stage.meanwhile = lambda: None
        stage.loader.add(late[0])

    stage.meanwhile = add
    stage.loader.load_now(*others)
    assert stage.led == others[:500]
    stage.loader.load_now()
    assert stage.portions[1] == late


def test_a_log_waits_for_an_earlier_one_that_was_given_up_while_it_was_loaded_into_the_same_folder(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    held = stage.held = {}
    [given_up], [again], [other] = stage.logs("t", 1), stage.logs("t", 1), stage.logs("other", 1, bytes(16))
    stage.loader.start()
    stage.loader.add(given_up)
    until(lambda: given_up in held)
    stage.loader.remove(given_up)
    stage.loader.add(again)
    stage.loader.add(other)
    until(lambda: other in held)
    assert again not in held
    _, failed = held[given_up]
    failed(given_up, FileNotFoundError("its folder is gone"))
    until(lambda: again in held)
    assert not caplog.records
    stage.loader.close()
