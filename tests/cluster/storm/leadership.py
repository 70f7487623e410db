"""Which broker was allowed to deliver the records of a queue, and what its deliveries mean.

A leader keeps what it has handed out in memory, in a window that it loads when it takes a share-partition over, and
loads again when a write of its state fails. Within one window a record has one holder at a time and its delivery count
grows by one each time; a new window begins with what is stored. So each delivery is placed into the window that it came
from: `led` says when PostgreSQL committed each change of a leader, `loaded` when each broker loaded each window, and
the delivery itself which broker it came from, when it was requested and when it arrived.

What was requested before a broker loaded a window anew and arrived after it may be of either window, and is judged by
neither. Everything else is judged strictly, in the order of windows: whatever a broker delivers that led no more when
it was asked is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from penstock.checks import Finding, Operation

Place = tuple[str, int]
TOLERANCE_MS = 5
"""How far apart the clocks of two processes of one machine may be rounded."""
_ENDED = ("accept", "reject")


@dataclass(frozen=True, slots=True)
class Led:
    place: Place
    node: int
    epoch: int
    since_ms: float
    until_ms: float = inf


@dataclass(frozen=True, slots=True)
class Loaded:
    place: Place
    node: int
    at_ms: float
    epoch: int = 0


@dataclass(slots=True)
class Judged:
    operations: list[Operation] = field(default_factory=list)
    """In the format of `penstock.checks`."""
    findings: list[Finding] = field(default_factory=list)
    overlaps: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Window:
    number: int
    at_ms: float
    end_ms: float
    """When the same broker loaded the next one, or somebody else led."""
    epoch: int


def leaderships(changes: Iterable[tuple[Place, int, int, float]]) -> list[Led]:
    """From what the catalog has recorded: place, leader, leader epoch and time of each change, in their order."""
    found: list[Led] = []
    latest: dict[Place, Led] = {}
    for place, node, epoch, at_ms in changes:
        before = latest.pop(place, None)
        if before is not None:
            found.append(Led(place, before.node, before.epoch, before.since_ms, at_ms))
        latest[place] = Led(place, node, epoch, at_ms)
    return [*found, *latest.values()]


def judged(
    operations: Sequence[Operation],
    led: Sequence[Led],
    loaded: Sequence[Loaded],
    lock_ms: int,
    tolerance_ms: int = TOLERANCE_MS,
) -> Judged:
    """The operations as the checkers take them: those of queues in the order of the windows that they belong to."""
    result = Judged()
    queued: dict[Place, list[Operation]] = {}
    last: list[Operation] = []
    for each in operations:
        if each["op"] in ("deliver", "acknowledge"):
            queued.setdefault(_place(each), []).append(each)
        elif each["op"] == "lost-fetch":
            for place in {window.place for window in loaded if window.node == each["node"]}:
                queued.setdefault(place, []).append(each)
        elif each["op"] == "settled":
            last.append(each)
        elif each["op"] != "session-over":
            result.operations.append(each)
    sessions = _Sessions(operations, lock_ms)
    for place, of_place in queued.items():
        leaders = [each for each in led if each.place == place]
        windows = _Windows(place, loaded, leaders, tolerance_ms)
        result.overlaps["window loaded anew under one leader epoch"] += windows.reloads
        _Partition(place, windows, leaders, sessions, result).judge(of_place)
    result.operations += last
    return result


class _Sessions:
    """Until when members held what they were given, at the least."""

    def __init__(self, operations: Iterable[Operation], lock_ms: int) -> None:
        self._lock_ms = lock_ms
        self._over: dict[tuple[object, object], list[Operation]] = {}
        for each in operations:
            if each["op"] == "session-over":
                self._over.setdefault((each["member"], each["node"]), []).append(each)

    def held_until(self, operation: Operation) -> int:
        """After a delivery or a renewal."""
        until = _number(operation, "sent") + self._lock_ms - 1
        for over in self._over.get((operation["member"], operation["node"]), ()):
            if _number(over, "time") >= _number(operation, "time"):
                return min(until, _number(over, "since"))
        return until


class _Windows:
    """All windows of a partition, in the order in which they were loaded."""

    def __init__(self, place: Place, loaded: Iterable[Loaded], led: Sequence[Led], tolerance_ms: int) -> None:
        self.tolerance_ms = tolerance_ms
        self._of: dict[int, list[_Window]] = {}
        self._all: list[_Window] = []
        self.reloads = 0
        mine = sorted((each for each in loaded if each.place == place), key=lambda each: each.at_ms)
        for number, each in enumerate(mine):
            later = [other.at_ms for other in mine[number + 1 :] if other.node == each.node]
            ended = [other.until_ms for other in led if (other.node, other.epoch) == (each.node, each.epoch)]
            window = _Window(number, each.at_ms, min([*later, *ended], default=inf), each.epoch)
            same = self._of.setdefault(each.node, [])
            self.reloads += bool(same) and same[-1].epoch == each.epoch
            same.append(window)
            self._all.append(window)

    def of(self, operation: Operation) -> list[int]:
        """The numbers of the windows that an operation may belong to."""
        sent, came = _number(operation, "sent") - self.tolerance_ms, _number(operation, "time") + self.tolerance_ms
        windows = self._of.get(int(str(operation["node"])), ())
        return [each.number for each in windows if each.at_ms <= came and each.end_ms > sent]

    def latest(self, at_ms: float) -> int:
        return max((each.number for each in self._all if each.at_ms <= at_ms + self.tolerance_ms), default=0)


_Entry = tuple[float, int, bool, float, Operation]


class _Partition:
    """The queue operations of one partition."""

    def __init__(
        self, place: Place, windows: _Windows, led: Sequence[Led], sessions: _Sessions, result: Judged
    ) -> None:
        self._place = place
        self._windows = windows
        self._led = led
        self._sessions = sessions
        self._result = result
        self._in_order: list[_Entry] = []
        """Number of the window (between two if it is not known), time, whether it may have come after others of that
        millisecond, a number that keeps the order, operation."""

    def judge(self, operations: Iterable[Operation]) -> None:
        for each in operations:
            if each["op"] == "deliver":
                self._deliver(each)
            elif each["op"] == "acknowledge":
                self._acknowledge(each)
            else:
                self._lost_fetch(each)
        deliveries: dict[tuple[float, object], list[_Entry]] = {}
        for entry in self._in_order:
            if entry[4]["op"] == "deliver":
                deliveries.setdefault((entry[0], entry[4]["offset"]), []).append(entry)
        for same in deliveries.values():
            for entry in same:
                self._in_order[int(entry[3])] = self._in_its_turn(entry, same)
        self._in_order.sort(key=lambda each: each[:4])
        self._tell()

    def _in_its_turn(self, entry: _Entry, same: Sequence[_Entry]) -> _Entry:
        """A fetch that brings acknowledgements is answered when they are stored, and the records that it was given may
        have gone to others by then: their answers may come first, with higher delivery counts. `same` are all
        deliveries of the record by this window."""
        window, _, comes_later, _, operation = entry
        earlier = [
            each
            for each in same
            if each[:4] < entry[:4]
            and _number(operation, "sent") <= each[1]
            and _number(each[4], "count") > _number(operation, "count")
        ]
        if not earlier:
            return entry
        self._result.overlaps["answer after that of a later delivery"] += 1
        first = min(earlier, key=lambda each: each[:4])
        return window, first[1], comes_later, first[3] - 0.5, {**operation, "time": first[1]}

    def _add(self, window: float, time_ms: int, operation: Operation) -> None:
        comes_later = operation.get("result") != "sent"
        self._in_order.append((window, time_ms, comes_later, len(self._in_order), operation))

    def _has_led(self, operation: Operation) -> bool:
        """Whether the broker led at any moment between the request and its answer."""
        sent, came = _number(operation, "sent"), _number(operation, "time")
        return any(
            each.node == operation["node"]
            and each.since_ms <= came + self._windows.tolerance_ms
            and each.until_ms >= sent - self._windows.tolerance_ms
            for each in self._led
        )

    def _report(self, operation: Operation, text: str) -> None:
        topic, partition = self._place
        what = f"offset {operation['offset']} of {topic}-{partition}"
        self._result.findings.append(Finding("Q1", f"{what} {text}: {operation}", 0))

    def _deliver(self, operation: Operation) -> None:
        if not self._has_led(operation):
            self._report(operation, f"is delivered by broker {operation['node']}, which did not lead any more")
        numbers = self._windows.of(operation)
        if not numbers:
            self._report(operation, f"is delivered by broker {operation['node']}, which has not loaded its window")
            return
        delivered = {**operation, "member": _member(operation), "until": self._sessions.held_until(operation)}
        if len(numbers) > 1:
            self._result.overlaps["delivery of one of two windows"] += 1
        self._add(sum(numbers) / len(numbers), _number(operation, "time"), delivered)

    def _acknowledge(self, operation: Operation) -> None:
        if operation["result"] == "ok" and not self._has_led(operation):
            self._report(operation, f"is confirmed by broker {operation['node']}, which did not lead any more")
        numbers = self._windows.of(operation)
        window = numbers[-1] if numbers else self._windows.latest(_number(operation, "time"))
        told = {**operation, "member": _member(operation)}
        if operation["kind"] == "renew":
            told["until"] = self._sessions.held_until(operation)
        if operation["kind"] == "release":
            # Whoever sends it has been given the record, by the window of then or by an earlier one.
            sent = _number(operation, "sent")
            self._add(numbers[0] if numbers else window, sent, {**told, "result": "sent", "time": sent})
        self._add(window, _number(operation, "time"), told)

    def _lost_fetch(self, operation: Operation) -> None:
        """Records may have been acquired for it at any moment until its connection was over."""
        gone = {"op": "gone", "group": operation["group"], "member": _member(operation), "fetching": True}
        gone |= {"topic": self._place[0], "partition": self._place[1]}
        window = self._windows.latest(_number(operation, "time"))
        for at_ms in (_number(operation, "sent"), _number(operation, "time")):
            self._add(min(window, self._windows.latest(at_ms)), at_ms, {**gone, "time": at_ms})

    def _tell(self) -> None:
        before: float | None = None
        ended: set[object] = set()
        given: dict[tuple[object, object], float] = {}
        for window, time_ms, _, _, operation in self._in_order:
            if before is not None and (window != before or not float(window).is_integer()):
                self._result.operations.append(self._taken_over(time_ms))
            before = float(window)
            offset, member = operation.get("offset"), operation["member"]
            if operation["op"] == "deliver":
                given[offset, member] = window
            elif operation["op"] == "acknowledge" and operation["result"] == "ok" and operation["kind"] in _ENDED:
                if offset in ended and given.get((offset, member), -1) < window:
                    # Below the start offset of a later window: confirmed and ignored, as Kafka does.
                    self._result.overlaps["acknowledgement of what has ended in a later window"] += 1
                    continue
                ended.add(offset)
            self._result.operations.append(operation)

    def _taken_over(self, time_ms: int) -> Operation:
        topic, partition = self._place
        return {"op": "fault", "kind": "take-over", "topic": topic, "partition": partition, "time": time_ms}


def _place(operation: Operation) -> Place:
    return str(operation["topic"]), int(str(operation["partition"]))


def _member(operation: Operation) -> str:
    """A member at one broker: what it holds there is over when its session there is."""
    return f"{operation['member']} at broker {operation['node']}"


def _number(operation: Operation, name: str) -> int:
    return int(str(operation[name]))
