"""What the face of the coordinator adds to the rules: recovery, waiting, failed appends."""

from __future__ import annotations

import pytest

from penstock.coordination.context import RequestContext
from penstock.coordination.effects import Effects
from penstock.transactions.metadata import TransactionVersion
from penstock.transactions.shard import MAX_WAITING, RETRY_MS, AddPartitions, TransactionSettings
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import CoordinatorLoadInProgress, ErrorCode
from tests.transactions.harness import TV_0, TV_2, Coordinator


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_outcome_completes_after_a_crash(commit: bool) -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, ("a", 0), ("b", 1))
    coordinator.end(pid, epoch, commit=commit)
    coordinator.crash()
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, commit), (("b", 1), pid, epoch + 1, commit)]
    assert coordinator.state() == (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)


def test_an_open_transaction_stays_open_after_a_crash() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.crash()
    assert coordinator.state() == TransactionState.ONGOING
    assert coordinator.end(pid, epoch, commit=True) == (pid, epoch + 1, ErrorCode.NONE)


def test_a_repeated_end_is_answered_the_same_after_a_crash_even_over_a_new_producer_id() -> None:
    coordinator = Coordinator()
    pid = coordinator.init()[0]
    for _ in range(32766):
        coordinator.init()
    coordinator.add(pid, 32766)
    answer = coordinator.end(pid, 32766, commit=True)
    coordinator.finish()
    coordinator.crash()
    assert coordinator.end(pid, 32766, commit=True) == answer == (pid + 1, 0, ErrorCode.NONE)


def test_memory_after_a_crash_is_memory_before_it() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, version=TV_0)
    before = coordinator.entry
    coordinator.crash()
    assert coordinator.entry == before


def test_the_next_transaction_waits_for_the_end_of_the_one_before() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    assert coordinator.add(pid, epoch + 1, ("b", 1)) is None
    assert coordinator.add(pid, epoch + 1, ("c", 2)) is None
    zombie = coordinator.respond()[0] + 1
    assert coordinator.add(pid, epoch, ("c", 2)) is None
    coordinator.finish()
    assert list(coordinator.replies.values())[-3:] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.PRODUCER_FENCED]
    assert coordinator.replies[zombie] == ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == TransactionState.ONGOING
    assert coordinator.entry.partitions == {("b", 1), ("c", 2)}


def test_the_wait_is_bounded_in_time_and_number() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    for _ in range(MAX_WAITING):
        assert coordinator.add(pid, epoch + 1) is None
    assert coordinator.add(pid, epoch + 1) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 100
    coordinator.now_ms += 100
    coordinator.tick()
    answers = [answer for answer in coordinator.replies.values() if answer == ErrorCode.CONCURRENT_TRANSACTIONS]
    assert len(answers) == MAX_WAITING + 1
    coordinator.finish()
    assert coordinator.state() == TransactionState.COMPLETE_COMMIT


def test_when_the_log_cannot_be_written_nothing_has_happened_and_the_client_may_try_again() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    shard = coordinator.shard
    end = m.EndTxnRequest(transactional_id="t", producer_id=pid, producer_epoch=epoch, committed=True)
    ctx = RequestContext(coordinator.now_ms, 5)
    ended: list[m.EndTxnResponse] = []
    effects = shard.end_txn(ended.append, ctx, end)
    shard.append_failed(effects)
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert ended == [m.EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert coordinator.state() == TransactionState.ONGOING
    assert [topic.topic for topic in shard.describe("t").topics] == ["a"]
    init = m.InitProducerIdRequest(transactional_id="new", transaction_timeout_ms=1000)
    initialized: list[m.InitProducerIdResponse] = []
    effects = shard.init_producer_id(initialized.append, ctx, init)
    shard.append_failed(effects)
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [(response.error_code, response.producer_id) for response in initialized] == [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    ]
    assert shard.metadata("new") is None
    assert coordinator.end(pid, epoch, commit=True) == (pid, epoch + 1, ErrorCode.NONE)


def test_a_completion_that_could_not_be_written_is_tried_again() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    (markers,) = coordinator.to_mark
    failed = coordinator.shard.markers_written(markers, markers.partitions, coordinator.now_ms)
    coordinator.shard.append_failed(failed)
    assert coordinator.state() == TransactionState.PREPARE_COMMIT
    coordinator.now_ms += RETRY_MS
    coordinator.tick()
    assert coordinator.state() == TransactionState.COMPLETE_COMMIT


def test_an_abort_for_timeout_that_could_not_be_written_is_tried_again() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init(timeout_ms=1_000)
    coordinator.add(pid, epoch)
    coordinator.now_ms += 1_001
    coordinator.shard.append_failed(coordinator.shard.tick(coordinator.now_ms))
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.now_ms += RETRY_MS
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms
    coordinator.tick()
    assert coordinator.state() == TransactionState.PREPARE_ABORT


def test_an_empty_abort_that_could_not_be_written_leaves_no_trace() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    end = m.EndTxnRequest(transactional_id="t", producer_id=pid, producer_epoch=epoch, committed=False)
    shard = coordinator.shard
    shard.append_failed(shard.end_txn(coordinator.respond()[1], RequestContext(coordinator.now_ms, 5), end))
    coordinator.now_ms += RETRY_MS
    coordinator.tick()
    assert coordinator.state() == TransactionState.EMPTY


def test_without_producer_ids_the_client_is_told_to_come_back() -> None:
    coordinator = Coordinator()

    def none_left() -> int:
        raise CoordinatorLoadInProgress

    coordinator.shard._new_producer_id = none_left
    assert coordinator.init()[2] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_the_coordinator_knows_which_partitions_of_a_producer_it_will_close() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, ("a", 0))
    assert coordinator.shard.holds(pid, epoch, ("a", 0))
    assert not coordinator.shard.holds(pid, epoch, ("a", 1))
    assert not coordinator.shard.holds(pid + 1, epoch, ("a", 0))
    coordinator.end(pid, epoch, commit=True)
    assert coordinator.shard.holds(pid, epoch, ("a", 0))
    assert not coordinator.shard.holds(pid, epoch + 1, ("a", 0))  # that is the next transaction, whoever began it
    coordinator.finish()
    assert not coordinator.shard.holds(pid, epoch, ("a", 0))


@pytest.mark.parametrize("version", [TV_0, TV_2], ids=["classic", "kip-890"])
def test_after_a_power_cut_what_is_open_is_aborted_and_its_producer_fenced(version: TransactionVersion) -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, version=version)
    coordinator.crash(power_was_lost=True)
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, False)]
    assert coordinator.end(pid, epoch, commit=True, version=4)[2] == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(pid, epoch, commit=True, version=5)[2] == ErrorCode.INVALID_TXN_STATE
    assert coordinator.add(pid, epoch, version=version) == ErrorCode.PRODUCER_FENCED
    assert coordinator.init()[2] == ErrorCode.NONE


@pytest.mark.parametrize("ended", [True, False], ids=["after a transaction", "before the first"])
def test_after_a_power_cut_nobody_goes_on_whose_transaction_may_be_lost(ended: bool) -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    if ended:
        coordinator.add(pid, epoch, version=TV_0)
        coordinator.end(pid, epoch, commit=True, version=4)
        coordinator.finish()
    coordinator.crash(power_was_lost=True)
    assert not coordinator.shard.has_sessions_to_end
    assert coordinator.add(pid, epoch, version=TV_0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(pid, epoch, commit=True, version=4)[2] == ErrorCode.PRODUCER_FENCED
    assert coordinator.init(pid=pid, epoch=epoch)[2] == ErrorCode.PRODUCER_FENCED
    assert coordinator.init() == (pid, epoch + 2, ErrorCode.NONE)


def test_after_a_power_cut_a_prepared_outcome_stands_and_its_producer_is_fenced_when_it_is_complete() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    _, next_epoch, _ = coordinator.end(pid, epoch, commit=True)
    coordinator.crash(power_was_lost=True)
    assert coordinator.shard.has_sessions_to_end
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, next_epoch, True)]
    assert not coordinator.shard.has_sessions_to_end
    assert coordinator.add(pid, next_epoch) == ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == TransactionState.EMPTY


def test_the_end_of_a_session_that_could_not_be_written_is_tried_again() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    _, next_epoch, _ = coordinator.end(pid, epoch, commit=True)
    coordinator.crash(power_was_lost=True)
    markers = coordinator.to_mark.pop()
    effects = coordinator.shard.markers_written(markers, markers.partitions, coordinator.now_ms)
    coordinator.shard.append_failed(effects)
    assert coordinator.shard.has_sessions_to_end
    coordinator.now_ms += RETRY_MS
    coordinator.tick()
    assert not coordinator.shard.has_sessions_to_end
    assert coordinator.add(pid, next_epoch) == ErrorCode.PRODUCER_FENCED


def test_nothing_before_the_end_of_a_transaction_waits_for_the_disk() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    add = AddPartitions("t", pid, epoch, frozenset({("a", 0)}), TV_2)
    assert not coordinator.do(
        coordinator.shard.add_partitions(coordinator.respond()[1], coordinator.now_ms, add)
    ).replies_wait
    _, epoch, _ = coordinator.end(pid, epoch, commit=True)
    assert coordinator.add(pid, epoch) is None
    markers = coordinator.to_mark.pop()
    served = coordinator.shard.markers_written(markers, markers.partitions, coordinator.now_ms)
    assert served.replies
    assert not served.replies_wait


def test_a_classic_addition_that_waited_for_the_end_before_it_waits_for_the_disk_too() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, version=TV_0)
    coordinator.end(pid, epoch, commit=True, version=4)
    assert coordinator.add(pid, epoch, version=TV_0) is None
    markers = coordinator.to_mark.pop()
    served = coordinator.shard.markers_written(markers, markers.partitions, coordinator.now_ms)
    assert served.replies
    assert served.replies_wait


def test_an_outcome_without_partitions_is_complete_after_a_crash() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.end(pid, epoch, commit=False)
    del coordinator.log[-1]
    coordinator.now_ms += 5
    coordinator.crash()
    assert coordinator.state() == TransactionState.COMPLETE_ABORT
    assert coordinator.entry.last_update_timestamp_ms == coordinator.now_ms


def test_an_open_transaction_without_partitions_is_complete_when_its_time_is_over() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init(timeout_ms=1_000)
    nothing = AddPartitions("t", pid, epoch, frozenset(), TV_2)
    coordinator.do(coordinator.shard.add_partitions(coordinator.respond()[1], coordinator.now_ms, nothing))
    coordinator.now_ms += 1_001
    coordinator.tick()
    assert coordinator.state() == TransactionState.COMPLETE_ABORT
    assert coordinator.entry.last_update_timestamp_ms == coordinator.now_ms


def test_an_addition_that_is_to_wait_for_the_disk_does() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    add = AddPartitions("t", pid, epoch, frozenset({("a", 0)}), TV_2, waits=True)
    effects = coordinator.shard.add_partitions(coordinator.respond()[1], coordinator.now_ms, add)
    assert effects.replies_wait is True


def test_additions_that_wait_are_given_up_one_by_one() -> None:
    coordinator = Coordinator(concurrent_wait_ms=1)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    first = coordinator.add(pid, epoch + 1)
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 1
    coordinator.now_ms += 1
    second = coordinator.add(pid, epoch + 1)
    assert (first, second) == (None, None)
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms
    coordinator.tick()
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 1
    assert list(coordinator.replies.values()).count(ErrorCode.CONCURRENT_TRANSACTIONS) == 1
    coordinator.finish()
    assert list(coordinator.replies.values())[-1] == ErrorCode.NONE


def test_what_comes_first_is_the_next_deadline() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init("short", timeout_ms=50)
    coordinator.add(pid, epoch, transactional_id="short")
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    assert coordinator.add(pid, epoch + 1) is None
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 51


@pytest.mark.parametrize("what", ["refused", "added", "given up"])
def test_whoever_adds_partitions_learns_that_what_was_before_it_is_lost(what: str) -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    answers: list[ErrorCode] = []
    add = AddPartitions("t", pid, epoch if what != "refused" else 7, frozenset({("a", 0)}), TV_2)
    if what == "given up":
        coordinator.add(pid, epoch)
        coordinator.end(pid, epoch, commit=True)
    effects = coordinator.shard.add_partitions(answers.append, coordinator.now_ms, add)
    if what == "given up":
        effects = coordinator.shard.tick(coordinator.now_ms + 100)
    effects.fail(ErrorCode.NOT_COORDINATOR)
    assert answers == [ErrorCode.NOT_COORDINATOR]


def test_a_shard_that_is_given_up_sends_those_who_wait_elsewhere() -> None:
    coordinator = Coordinator(concurrent_wait_ms=100)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    answers: list[ErrorCode] = []
    add = AddPartitions("t", pid, epoch + 1, frozenset({("a", 0)}), TV_2)
    coordinator.shard.add_partitions(answers.append, coordinator.now_ms, add)
    effects = coordinator.shard.unload(ErrorCode.NOT_COORDINATOR)
    effects.send()
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert answers == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert coordinator.shard.unload(ErrorCode.NOT_COORDINATOR).replies == []


def test_a_completion_that_was_tried_again_leaves_no_deadline() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.shard.append_failed(Effects())
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + RETRY_MS
    coordinator.now_ms += RETRY_MS
    coordinator.tick()
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms - RETRY_MS + 3_600_000


def test_other_settings_hold_from_now_on() -> None:
    coordinator = Coordinator()
    coordinator.shard.use(TransactionSettings(transaction_max_timeout_ms=10))
    assert coordinator.init(timeout_ms=11)[2] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.init(timeout_ms=10)[2] == ErrorCode.NONE
