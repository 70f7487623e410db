"""Transactions: whole conversations under both protocols, and every wrong step in every state that lasts.

(PrepareCommit and PrepareAbort last for as long as it takes to write the markers; the coordinator's own tests hold them
open.)
"""

from __future__ import annotations

from collections.abc import Iterator

from ..batches import TRANSACTIONAL, batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario

STATES = ("absent", "Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
ENDING = ("PrepareCommit", "PrepareAbort")
TIMEOUT_MS = 60_000
CLASSIC, MODERN = 4, 5
"""The last version of EndTxn before KIP-890, and the first with it."""


class Id:
    """One transactional id, brought quietly into a state."""

    def __init__(self, talk: Conversation, name: str, topic: str, *, modern: bool = False) -> None:
        self.talk = talk
        self.name = name
        self.topic = topic
        self.modern = modern
        self.producer_id = 9_999_999
        self.epoch = 0
        talk.wait_for_coordinator(name, 1)

    def bring_to(self, state: str) -> Id:
        if state == "absent":
            return self
        body = {"transactional_id": self.name, "transaction_timeout": TIMEOUT_MS}
        granted = self.talk.until(lambda answer: answer["error_code"] == "NONE", "init_producer_id", body, 5)
        self.producer_id, self.epoch = granted["producer_id"], granted["producer_epoch"]
        if state != "Empty":
            self.begin()
        if state.startswith("Complete"):
            self.end(commit=state == "CompleteCommit")
        return self

    def begin(self) -> None:
        if self.modern:
            self.talk.until(_added, "add_partitions_to_txn", self.adding_as_broker(), 5)
        else:
            self.talk.until(_added_v3, "add_partitions_to_txn", self.adding(), 3)

    def end(self, *, commit: bool) -> None:
        version = MODERN if self.modern else CLASSIC
        answer = self.talk.until(lambda answer: answer["error_code"] == "NONE", "end_txn", self.ending(commit), version)
        if self.modern:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
        self.settle()

    def settle(self) -> str:
        """Wait until the markers are written; gives the state, "" if there is none."""
        answer = self.talk.until(
            lambda answer: (
                answer["error_code"] == "NONE"
                and not any(each["transaction_state"] in ENDING for each in answer["transaction_states"])
            ),
            "list_transactions",
            {"transactional_id_pattern": self.name},
            2,
        )
        states = [each["transaction_state"] for each in answer["transaction_states"]]
        return states[0] if states else ""

    # --- requests ---

    def who(self, epoch: int = 0, producer: int = 0) -> dict[str, Json]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id + producer,
            "producer_epoch": self.epoch + epoch,
        }

    def adding(self, *partitions: int, epoch: int = 0, producer: int = 0) -> dict[str, Json]:
        who = self.who(epoch, producer)
        return {
            **{f"v3_and_below_{name}": value for name, value in who.items()},
            "v3_and_below_topics": [{"name": self.topic, "partitions": list(partitions or [0])}],
        }

    def adding_as_broker(self, *partitions: int, verify: bool = False, epoch: int = 0) -> dict[str, Json]:
        topics = [{"name": self.topic, "partitions": list(partitions or [0])}]
        return {"transactions": [{**self.who(epoch), "verify_only": verify, "topics": topics}]}

    def ending(self, commit: bool, epoch: int = 0, producer: int = 0) -> dict[str, Json]:
        return {**self.who(epoch, producer), "committed": commit}

    def producing(self, *texts: str, sequence: int = 0, partition: int = 0, epoch: int = 0) -> dict[str, Json]:
        data = batch(
            *values(*texts),
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        topic = {"name": self.topic, "partition_data": [{"index": partition, "records": data}]}
        return {"transactional_id": self.name, "acks": -1, "timeout": 10_000, "topic_data": [topic]}

    def describe(self, note: str) -> None:
        """What the coordinator says of the id. (kio cannot read the missing start of one that is Empty.)"""
        if self.settle() == "Empty":
            body = {"transactional_id_pattern": self.name}
            self.talk.send("list_transactions", body, version=2, note=note, mine="transaction_states")
        else:
            self.talk.send("describe_transactions", {"transactional_ids": [self.name]}, version=0, note=note)


def _added(answer: Json) -> bool:
    results = answer["results_by_transaction"][0]["topic_results"][0]["results_by_partition"]
    return bool(results[0]["partition_error_code"] == "NONE")


def _added_v3(answer: Json) -> bool:
    results = answer["results_by_topic_v3_and_below"][0]["results_by_partition"]
    return bool(results[0]["partition_error_code"] == "NONE")


def ids(talk: Conversation, word: str, *, modern: bool = False) -> Iterator[Id]:
    """Transactional ids without end, each used once."""
    talk.producer_id()  # the first producer id of a cluster is 0, which the transcripts would take for none
    topic = talk.name(f"{word}-topic")
    talk.create_topic(topic, 2)
    number = 0
    while True:
        number += 1
        yield Id(talk, talk.name(f"{word}-{number}"), topic, modern=modern)


@scenario("end_txn")
def end_transactions_in_every_state(talk: Conversation) -> None:
    fresh = ids(talk, "end", modern=talk.version >= MODERN)
    for state in STATES:
        for commit in (True, False):
            for note, epoch, producer in (
                ("current epoch", 0, 0),
                ("epoch before", -1, 0),
                ("epoch after", 1, 0),
                ("other producer id", 0, 1),
            ):
                one = next(fresh).bring_to(state)
                what = f"{'commit' if commit else 'abort'} in {state}, {note}"
                talk.send("end_txn", one.ending(commit, epoch, producer), note=what)
                one.describe(f"after {what}")


@scenario("end_txn")
def end_transactions_twice(talk: Conversation) -> None:
    fresh = ids(talk, "twice", modern=talk.version >= MODERN)
    for first in (True, False):
        for second in (True, False):
            one = next(fresh).bring_to("Ongoing")
            talk.send("end_txn", one.ending(first), note="first")
            one.settle()
            talk.send("end_txn", one.ending(second), note=f"{first} and then {second} with the same epoch")
            one.describe("after both")
            if talk.version < MODERN:
                talk.send("add_partitions_to_txn", one.adding(1), version=3, note="the next transaction")
                talk.send("end_txn", one.ending(second), note="its end")
                one.describe("after the next")
    talk.send("end_txn", {"transactional_id": "", "producer_id": 1, "producer_epoch": 0}, note="empty id")


@scenario("init_producer_id")
def init_producers_in_every_state(talk: Conversation) -> None:
    fresh = ids(talk, "init")
    body = {"transaction_timeout": TIMEOUT_MS}
    for state in STATES:
        for note, named in (
            ("nothing named", None),
            ("current epoch", (0, 0)),
            ("epoch before", (-1, 0)),
            ("epoch after", (1, 0)),
            ("other producer id", (0, 1)),
        ):
            if named is not None and talk.version < 3:
                continue
            one = next(fresh).bring_to(state)
            who = {"transactional_id": one.name} if named is None else one.who(*named)
            for attempt in ("first", "second"):
                talk.send("init_producer_id", {**body, **who}, note=f"{note} in {state}, {attempt} time")
                one.settle()
            one.describe(f"after {note} in {state}")
    name = talk.name("never")
    for timeout_ms in (0, -1, 900_000, 900_001):
        talk.send(
            "init_producer_id",
            {"transactional_id": name, "transaction_timeout": timeout_ms},
            note=f"timeout {timeout_ms}",
        )
    talk.send("init_producer_id", {**body, "transactional_id": ""}, note="empty id")
    talk.send("init_producer_id", {**body, "transactional_id": None}, note="no id")
    if talk.version >= 3:
        for note, who in (("id", {"producer_id": 1}), ("epoch", {"producer_epoch": 1})):
            talk.send("init_producer_id", {**body, "transactional_id": name, **who}, note=f"only the producer {note}")
            talk.send(
                "init_producer_id", {**body, "transactional_id": None, **who}, note=f"idempotent, only the {note}"
            )


@scenario("add_partitions_to_txn", most=3)
def add_partitions_in_every_state(talk: Conversation) -> None:
    fresh = ids(talk, "add")
    for state in STATES:
        for note, epoch, producer in (
            ("current epoch", 0, 0),
            ("epoch before", -1, 0),
            ("epoch after", 1, 0),
            ("other producer id", 0, 1),
        ):
            one = next(fresh).bring_to(state)
            what = f"{note} in {state}"
            talk.send("add_partitions_to_txn", one.adding(0, 1, epoch=epoch, producer=producer), note=what)
            one.describe(f"after {what}")
    one = next(fresh).bring_to("Empty")
    talk.send("add_partitions_to_txn", one.adding(0, 9), note="a partition that does not exist")
    absent = {**one.adding(), "v3_and_below_topics": [{"name": talk.name("absent"), "partitions": [0]}]}
    talk.send("add_partitions_to_txn", absent, note="a topic that does not exist")
    internal = {**one.adding(), "v3_and_below_topics": [{"name": "__transaction_state", "partitions": [0]}]}
    talk.send("add_partitions_to_txn", internal, note="an internal topic")
    talk.send("add_partitions_to_txn", {**one.adding(), "v3_and_below_transactional_id": ""}, note="empty id")
    one.describe("after all this")


@scenario("add_partitions_to_txn", least=4)
def brokers_add_and_verify(talk: Conversation) -> None:
    fresh = ids(talk, "verify", modern=True)
    for state in STATES:
        for verify in (True, False):
            for note, epoch in (("current epoch", 0), ("epoch before", -1)):
                one = next(fresh).bring_to(state)
                what = f"{'verify' if verify else 'add'} in {state}, {note}"
                talk.send("add_partitions_to_txn", one.adding_as_broker(0, 1, verify=verify, epoch=epoch), note=what)
                one.describe(f"after {what}")
    first, second = next(fresh).bring_to("Ongoing"), next(fresh).bring_to("Empty")
    both = first.adding_as_broker(verify=True)["transactions"] + second.adding_as_broker(0, 9)["transactions"]
    talk.send("add_partitions_to_txn", {"transactions": both}, note="two transactions, one of them wrong")


@scenario("add_offsets_to_txn")
def add_offsets_in_every_state(talk: Conversation) -> None:
    fresh = ids(talk, "offsets")
    group = talk.name("group")
    talk.wait_for_coordinator(group)
    for state in STATES:
        for note, epoch, producer in (("current epoch", 0, 0), ("epoch before", -1, 0), ("other producer id", 0, 1)):
            one = next(fresh).bring_to(state)
            body = {**one.who(epoch, producer), "group_id": group}
            talk.send("add_offsets_to_txn", body, note=f"{note} in {state}")
            one.describe(f"after {note} in {state}")


@scenario("txn_offset_commit", alone=True)
def commit_offsets_in_transactions(talk: Conversation) -> None:
    fresh = ids(talk, "commit", modern=talk.version >= 5)
    group = talk.name("group")
    talk.wait_for_coordinator(group)

    def body(one: Id, offset: int, topic: str | None = None, **more: Json) -> dict[str, Json]:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
        topics = [{"name": topic or one.topic, "partitions": [partition]}]
        return {**one.who(), "group_id": group, "topics": topics, **more}

    def fetched(one: Id, note: str) -> None:
        topics = [{"name": one.topic, "partition_indexes": [0]}]
        groups = [{"group_id": group, "topics": topics}]
        talk.send("offset_fetch", {"groups": groups, "require_stable": True}, version=8, note=note)

    one = next(fresh).bring_to("Empty")
    talk.send("txn_offset_commit", body(one, 1), note="before the group was added")
    offset = 10
    for commit in (True, False):
        one = next(fresh).bring_to("Empty")
        if talk.version < 5:
            talk.send("add_offsets_to_txn", {**one.who(), "group_id": group}, version=4, note="add the group")
        talk.send("txn_offset_commit", body(one, offset), note="in the transaction")
        talk.send("txn_offset_commit", body(one, 5, topic=talk.name("absent")), note="of a topic that does not exist")
        if talk.version >= 3:
            talk.send("txn_offset_commit", body(one, 5, generation_id=7, member_id="m"), note="of an unknown member")
        fetched(one, "before the end")
        one.end(commit=commit)
        fetched(one, f"after {'commit' if commit else 'abort'}")
        offset += 10
    one = next(fresh).bring_to("Empty")
    talk.send("txn_offset_commit", {**body(one, 1), "producer_epoch": one.epoch - 1}, note="epoch before")
    talk.send("txn_offset_commit", {**body(one, 1), "producer_id": one.producer_id + 1}, note="other producer id")


# Alone, because Kafka verifies writes that come at the same time together, all in the words of the first one's version.
@scenario("produce", least=9, most=12, alone=True)
def produce_in_transactions(talk: Conversation) -> None:
    adds = talk.version >= 12
    fresh = ids(talk, "produce", modern=adds)
    one = next(fresh).bring_to("Empty")
    talk.send("produce", one.producing("a"), note="first write, not added")
    one.describe("after the first write")
    one = next(fresh).bring_to("Ongoing")
    talk.send("produce", one.producing("b"), note="to a partition that was added")
    talk.send("produce", one.producing("b"), note="the same again")
    talk.send("produce", one.producing("c", sequence=1), note="the next")
    talk.send("produce", one.producing("d", sequence=7), note="a gap in the sequence")
    talk.send("produce", one.producing("e", partition=1), note="to a partition that was not added")
    talk.send("produce", one.producing("f", epoch=-1), note="epoch before")
    talk.send("produce", {**one.producing("g"), "transactional_id": None}, note="without a transactional id")
    one.describe("while it is open")
    one.end(commit=True)
    talk.send("produce", one.producing("h", epoch=-1 if adds else 0, sequence=2), note="after the end")
    if adds:
        talk.send("produce", one.producing("i"), note="in the next transaction")
        talk.send("produce", one.producing("j", sequence=5, partition=1), note="a transaction that begins at 5")
        one.end(commit=False)
    absent = Id(talk, talk.name("stranger"), one.topic)
    talk.send("produce", absent.producing("k"), note="of an unknown transactional id")
    parts = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in (0, 1)]
    body = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": [{"topic": one.topic, "partitions": parts}]}
    one.settle()
    for isolation in (0, 1):
        talk.send("fetch", {**body, "isolation_level": isolation}, version=11, note=f"isolation {isolation}")
    topics = [
        {"name": one.topic, "partition_indexes": [0, 1, 9]},
        {"name": talk.name("absent"), "partition_indexes": [0]},
    ]
    talk.send("describe_producers", {"topics": topics}, version=0, note="what is left")


@scenario("write_txn_markers")
def write_markers(talk: Conversation) -> None:
    fresh = ids(talk, "marker", modern=True)
    one = next(fresh).bring_to("Empty")
    talk.until(
        lambda answer: answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE",
        "produce",
        one.producing("hanging"),
        12,
    )

    def marker(commit: bool, epoch: int = 0, coordinator: int = 0, partitions: tuple[int, ...] = (0,)) -> Json:
        topics = [{"name": one.topic, "partition_indexes": list(partitions)}]
        return {
            "producer_id": one.producer_id,
            "producer_epoch": one.epoch + epoch,
            "transaction_result": commit,
            "topics": topics,
            "coordinator_epoch": coordinator,
        }

    talk.send("write_txn_markers", {"markers": []}, note="none")
    talk.send(
        "write_txn_markers", {"markers": [marker(False, partitions=(0, 1, 9))]}, note="abort, with unknown partition"
    )
    talk.send("write_txn_markers", {"markers": [marker(False)]}, note="again")
    talk.send("write_txn_markers", {"markers": [marker(True, epoch=3)]}, note="a later epoch")
    talk.send("write_txn_markers", {"markers": [marker(True)]}, note="an earlier epoch")
    talk.send("write_txn_markers", {"markers": [marker(True, epoch=4, coordinator=5)]}, note="a later coordinator")
    talk.send("write_txn_markers", {"markers": [marker(True, epoch=4, coordinator=4)]}, note="an earlier coordinator")
    topics = [{"name": one.topic, "partition_indexes": [0, 1]}]
    talk.send("describe_producers", {"topics": topics}, version=0, note="the producer afterwards")


@scenario("list_transactions")
def list_transactions(talk: Conversation) -> None:
    fresh = ids(talk, "list")
    for state in STATES[1:]:
        next(fresh).bring_to(state)

    def listed(note: str, **filters: Json) -> None:
        talk.send("list_transactions", filters, note=note, mine="transaction_states")

    listed("all")
    listed("by state", state_filters=["Ongoing", "CompleteAbort"])
    listed("by unknown state", state_filters=["Asleep", "Empty"])
    listed("by producer id", producer_id_filters=[123_456_789])
    if talk.version >= 1:
        listed("by age", duration_filter=3_600_000, state_filters=["Ongoing"])
        listed("by no age", duration_filter=0, state_filters=["Ongoing"])
    if talk.version >= 2:
        listed("by pattern", transactional_id_pattern=".*-[24]")
        listed("by empty pattern", transactional_id_pattern="")
        listed("by broken pattern", transactional_id_pattern="(")
        listed("by pattern of a part", transactional_id_pattern="list")
    talk.send("describe_transactions", {"transactional_ids": ["", talk.name("nobody")]}, version=0, note="unknown ids")
