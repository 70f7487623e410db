"""Transactions asked for in odd ways: nothing named, named twice, numbers out of range, names too long."""

from __future__ import annotations

from ..batches import CONTROL, TRANSACTIONAL, batch, values
from ..conversation import Conversation
from ..kio_codec import Json
from . import scenario
from .transactions import MODERN, TIMEOUT_MS, Id, ids

LARGEST_16, LARGEST_32, LARGEST_64 = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1


def odd_topics(one: Id) -> list[tuple[str, list[Json]]]:
    def topic(*partitions: int, name: str = one.topic) -> Json:
        return {"name": name, "partitions": list(partitions)}

    return [
        ("no topics", []),
        ("a topic without partitions", [topic()]),
        ("a topic without partitions and one with", [topic(name="empty"), topic(0)]),
        ("an unknown topic without partitions", [topic(name=one.talk.name("absent"))]),
        ("an unknown topic and a topic without partitions", [topic(0, name=one.talk.name("absent")), topic()]),
        ("a topic twice", [topic(0), topic(1)]),
        ("a partition twice", [topic(0, 0)]),
        ("a topic and its partition twice", [topic(0), topic(0)]),
        ("a negative partition", [topic(-1)]),
        ("the largest partition", [topic(LARGEST_32)]),
        ("a topic without a name", [topic(0, name="")]),
        ("a topic with a long name", [topic(0, name="n" * 300)]),
        ("a topic with a wrong name", [topic(0, name="a/b")]),
        ("a known and an unknown topic", [topic(0), topic(0, name=one.talk.name("absent"))]),
    ]


def odd_producers(one: Id) -> list[tuple[str, dict[str, Json]]]:
    return [
        ("no producer id", {"producer_id": -1}),
        ("no epoch", {"producer_epoch": -1}),
        ("neither", {"producer_id": -1, "producer_epoch": -1}),
        ("a producer id below all", {"producer_id": -5}),
        ("the largest producer id", {"producer_id": LARGEST_64}),
        ("the largest epoch", {"producer_epoch": LARGEST_16}),
        ("an epoch below all", {"producer_epoch": -5}),
        ("no transactional id", {"transactional_id": ""}),
        ("a long transactional id", {"transactional_id": one.name + "n" * 1000}),
        ("another transactional id", {"transactional_id": one.name + "-other"}),
    ]


@scenario("add_partitions_to_txn", most=3)
def add_odd_partitions(talk: Conversation) -> None:
    fresh = ids(talk, "add")
    for state in ("Empty", "Ongoing"):
        one = next(fresh).bring_to(state)
        for note, topics in odd_topics(one):
            talk.send("add_partitions_to_txn", {**one.adding(), "v3_and_below_topics": topics}, note=f"{state}: {note}")
        one.describe(f"{state}: after all this")
    one = next(fresh).bring_to("Ongoing")
    for note, fields in odd_producers(one):
        body = {**one.adding(), **{f"v3_and_below_{name}": value for name, value in fields.items()}}
        talk.send("add_partitions_to_txn", body, note=note)
    one.describe("after odd producers")


@scenario("add_partitions_to_txn", least=4)
def brokers_add_odd_partitions(talk: Conversation) -> None:
    fresh = ids(talk, "add", modern=True)

    def add(note: str, *transactions: Json) -> None:
        talk.send("add_partitions_to_txn", {"transactions": list(transactions)}, note=note)

    for state in ("Empty", "Ongoing"):
        for verify in (True, False):
            one = next(fresh).bring_to(state)
            for note, topics in odd_topics(one):
                requested = {**one.who(), "verify_only": verify, "topics": topics}
                add(f"{'verify' if verify else 'add'} in {state}: {note}", requested)
            one.describe(f"{'verify' if verify else 'add'} in {state}: after all this")
    one, two = next(fresh).bring_to("Ongoing"), next(fresh).bring_to("Ongoing")
    for verify in (True, False):
        requested = {**one.who(), "verify_only": verify, "topics": [{"name": one.topic, "partitions": [0]}]}
        for note, fields in odd_producers(one):
            add(f"{'verify' if verify else 'add'}: {note}", {**requested, **fields})
        other = {**requested, **two.who()}
        nobody = {**requested, "transactional_id": ""}
        add(f"{'verify' if verify else 'add'}: one without topics among two", {**requested, "topics": []}, other)
        add(f"{'verify' if verify else 'add'}: one without an id among two", nobody, other)
        add(f"{'verify' if verify else 'add'}: one of a wrong topic among two", {**requested, "topics": WRONG}, other)
    one.describe("after odd producers")


WRONG: list[Json] = [{"name": "a/b", "partitions": [0]}]


@scenario("add_offsets_to_txn")
def add_odd_offsets(talk: Conversation) -> None:
    fresh = ids(talk, "offsets")
    group = talk.name("group")
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator("")
    one = next(fresh).bring_to("Ongoing")
    for note, fields in odd_producers(one):
        talk.send("add_offsets_to_txn", {**one.who(), "group_id": group, **fields}, note=note)
    talk.send("add_offsets_to_txn", {**one.who(), "group_id": "g" * 500}, note="a long group id")
    talk.send("add_offsets_to_txn", {**one.who(), "group_id": group}, note="as it should be")
    talk.send("add_offsets_to_txn", {**one.who(), "group_id": group}, note="again")


@scenario("end_txn")
def end_odd_transactions(talk: Conversation) -> None:
    fresh = ids(talk, "end", modern=talk.version >= MODERN)
    for state in ("Empty", "Ongoing"):
        one = next(fresh).bring_to(state)
        for note, fields in odd_producers(one):
            for commit in (True, False):
                what = f"{'commit' if commit else 'abort'} in {state}: {note}"
                talk.send("end_txn", {**one.ending(commit), **fields}, note=what)
        one.describe(f"{state}: after all this")


@scenario("init_producer_id")
def init_odd_producers(talk: Conversation) -> None:
    fresh = ids(talk, "init")
    one = next(fresh).bring_to("Empty")

    def init(note: str, **fields: Json) -> None:
        body = {"transactional_id": one.name, "transaction_timeout": TIMEOUT_MS}
        talk.send("init_producer_id", {**body, **fields}, note=note)
        one.settle()

    for timeout_ms in (-LARGEST_32 - 1, -1, 0, 1, LARGEST_32):
        init(f"timeout {timeout_ms}", transaction_timeout=timeout_ms)
        init(f"idempotent, timeout {timeout_ms}", transactional_id=None, transaction_timeout=timeout_ms)
    init("a long transactional id", transactional_id=one.name + "n" * 1000)
    if talk.version < 3:
        return
    for note, fields in odd_producers(one):
        if "transactional" not in note:
            init(note, **{**one.who(), **fields})
            init(f"idempotent, {note}", **{**one.who(), **fields, "transactional_id": None})
            init(
                f"nobody yet, {note}", **{**one.who(), **fields, "transactional_id": talk.name(note.replace(" ", "-"))}
            )
    one.describe("after all this")


@scenario("txn_offset_commit", alone=True)
def commit_odd_offsets_in_transactions(talk: Conversation) -> None:
    modern = talk.version >= MODERN
    fresh = ids(talk, "commit", modern=modern)
    group = talk.name("group")
    talk.wait_for_coordinator(group)
    talk.wait_for_coordinator("")

    def ready() -> Id:
        one = next(fresh).bring_to("Empty")
        if not modern:
            talk.until(
                lambda answer: answer["error_code"] == "NONE", "add_offsets_to_txn", {**one.who(), "group_id": group}, 4
            )
        return one

    def part(index: int = 0, offset: int = 5, metadata: str | None = "m", **more: Json) -> Json:
        return {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata, **more}

    def commit(one: Id, note: str, *topics: Json, **fields: Json) -> None:
        talk.send("txn_offset_commit", {**one.who(), "group_id": group, "topics": list(topics), **fields}, note=note)

    one = ready()

    def topic(*partitions: Json, name: str = one.topic) -> Json:
        return {"name": name, "partitions": list(partitions)}

    absent = talk.name("absent")
    commit(one, "no topics")
    commit(one, "a topic without partitions", topic())
    commit(one, "a topic without partitions and one with", topic(name=absent), topic(part()))
    commit(one, "only an unknown topic without partitions", topic(name=absent))
    commit(one, "an unknown topic and a topic without partitions", topic(part(), name=absent), topic())
    commit(one, "a topic twice", topic(part(0)), topic(part(1)))
    commit(one, "a partition twice", topic(part(0, 6), part(0, 7)))
    commit(one, "a topic twice, once with an unknown partition", topic(part(0, 6)), topic(part(9)))
    commit(one, "an unknown topic twice", topic(part(0), name=absent), topic(part(1), name=absent))
    commit(one, "a negative partition", topic(part(-1)))
    commit(one, "the largest partition", topic(part(LARGEST_32)))
    commit(one, "a topic without a name", topic(part(), name=""))
    commit(one, "a topic with a long name", topic(part(), name="n" * 300))
    commit(one, "no metadata", topic(part(0, 8, None)))
    commit(one, "too much metadata", topic(part(0, 9, "m" * 5000), part(1, 9)))
    commit(one, "no offset", topic(part(0, -1)))
    commit(one, "an offset below all", topic(part(0, -7)))
    commit(one, "the largest offset", topic(part(1, LARGEST_64)))
    if talk.version >= 2:
        commit(one, "a leader epoch below all", topic(part(0, 10, committed_leader_epoch=-7)))
        commit(one, "the largest leader epoch", topic(part(0, 11, committed_leader_epoch=LARGEST_32)))
    if talk.version >= 3:
        commit(one, "a member without a generation", topic(part()), member_id="m")
        commit(one, "a generation without a member", topic(part()), generation_id=3)
        commit(one, "a generation below all", topic(part()), generation_id=-7)
        commit(one, "an instance without a member", topic(part()), group_instance_id="i")
        commit(one, "an empty instance", topic(part()), group_instance_id="")
    commit(one, "no group", topic(part()), group_id="")
    for note, fields in odd_producers(one):
        commit(one, note, topic(part()), **fields)
        commit(one, f"{note}, no topics", **fields)
    one.describe("after all this")


@scenario("write_txn_markers")
def write_odd_markers(talk: Conversation) -> None:
    fresh = ids(talk, "markers")

    def marker(one: Id, *topics: Json, **fields: Json) -> Json:
        who = {"producer_id": one.producer_id, "producer_epoch": one.epoch, "transaction_result": False}
        return {**who, "topics": list(topics), "coordinator_epoch": 0, **fields}

    def write(note: str, *markers: Json) -> None:
        talk.send("write_txn_markers", {"markers": list(markers)}, note=note)

    one, two = next(fresh).bring_to("Ongoing"), next(fresh).bring_to("Ongoing")

    def topic(*partitions: int, name: str = one.topic) -> Json:
        return {"name": name, "partition_indexes": list(partitions)}

    absent = talk.name("absent")
    write("a marker without topics", marker(one))
    write("two markers without topics", marker(one), marker(two))
    write("one without topics and one with", marker(one), marker(two, topic(0)))
    write("a topic without partitions", marker(one, topic()))
    write("a topic without partitions and one with", marker(one, topic(name=absent), topic(0)))
    write("an unknown topic without partitions", marker(one, topic(name=absent)))
    write("an unknown topic", marker(one, topic(0, name=absent)))
    write("a topic without a name", marker(one, topic(0, name="")))
    write("a topic with a wrong name", marker(one, topic(0, name="a/b")))
    write("a topic twice", marker(one, topic(0), topic(1)))
    write("a partition twice", marker(one, topic(0, 0)))
    write("a producer twice", marker(one, topic(0)), marker(one, topic(1)))
    write("a producer twice for one partition", marker(one, topic(0)), marker(one, topic(0)))
    write("a negative partition", marker(one, topic(-1)))
    write("the largest partition", marker(one, topic(LARGEST_32)))
    write("no producer id", marker(one, topic(0), producer_id=-1))
    write("no epoch", marker(one, topic(0), producer_epoch=-1))
    write("the largest epoch", marker(one, topic(0), producer_epoch=LARGEST_16))
    write("an unknown producer", marker(one, topic(1), producer_id=LARGEST_64))
    write("no coordinator epoch", marker(two, topic(1), coordinator_epoch=-1))
    if talk.version >= 2:
        write("an unknown transaction version", marker(two, topic(1), transaction_version=99))
        write("a negative transaction version", marker(two, topic(1), transaction_version=-1))
        write("the modern version with the same epoch", marker(two, topic(1), transaction_version=2))


@scenario("describe_transactions")
def describe_odd_transactions(talk: Conversation) -> None:
    one = next(ids(talk, "describe")).bring_to("Ongoing")
    talk.send("describe_transactions", {"transactional_ids": [one.name, one.name]}, note="twice")
    talk.send(
        "describe_transactions", {"transactional_ids": ["", one.name, one.name + "n" * 1000]}, note="some unknown"
    )
    talk.send("describe_transactions", {"transactional_ids": []}, note="none")


@scenario("list_transactions")
def list_odd_transactions(talk: Conversation) -> None:
    one = next(ids(talk, "list")).bring_to("Ongoing")

    def listed(note: str, **filters: Json) -> None:
        talk.send("list_transactions", filters, note=note, mine="transaction_states")

    listed("an empty state", state_filters=[""])
    listed("a state twice", state_filters=["Ongoing", "Ongoing"])
    listed("an unknown state twice", state_filters=["Asleep", "Asleep"])
    listed("a state in small letters", state_filters=["ongoing"])
    listed("a state that is never listed", state_filters=["Dead", "PrepareEpochFence"])
    listed("no producer", producer_id_filters=[-1])
    listed("a producer twice", producer_id_filters=[one.producer_id, one.producer_id])
    if talk.version >= 1:
        listed("below no age", duration_filter=-1)
        listed("far below no age", duration_filter=-1000)
        listed("the largest age", duration_filter=LARGEST_64 // 1_000_000)
    if talk.version >= 2:
        listed("no pattern", transactional_id_pattern=None)
        listed("a pattern of everything", transactional_id_pattern=".*")
        listed("a Java pattern", transactional_id_pattern=r"\Q" + one.name + r"\E")
        listed("a possessive pattern", transactional_id_pattern=".*+")


# Alone, because Kafka verifies writes that come at the same time together, all in the words of the first one's version.
@scenario("produce", least=9, most=12, alone=True)
def produce_oddly_in_transactions(talk: Conversation) -> None:
    fresh = ids(talk, "produce", modern=talk.version >= 12)

    def part(one: Id, index: int = 0, **fields: Json) -> Json:
        who = {"producer_id": one.producer_id, "producer_epoch": one.epoch, "base_sequence": 0}
        return {"index": index, "records": batch(*values("a"), **{**who, "attributes": TRANSACTIONAL, **fields})}

    def produce(note: str, one: Id, *partitions: Json, **more: Json) -> None:
        topics = [{"name": one.topic, "partition_data": list(partitions)}]
        body = {"transactional_id": one.name, "acks": -1, "timeout": 10_000, "topic_data": topics}
        talk.send("produce", {**body, **more}, note=note)

    for state in ("Empty", "Ongoing"):
        one = next(fresh).bring_to(state)
        other = next(fresh).bring_to(state)
        produce(f"{state}: an empty id", one, part(one), transactional_id="")
        produce(f"{state}: another's id", one, part(one), transactional_id=other.name)
        produce(f"{state}: an unknown id", one, part(one), transactional_id=one.name + "-other")
        produce(f"{state}: no producer", one, part(one, producer_id=-1))
        produce(f"{state}: no epoch", one, part(one, producer_epoch=-1))
        produce(f"{state}: no sequence", one, part(one, base_sequence=-1))
        produce(f"{state}: the largest epoch", one, part(one, producer_epoch=LARGEST_16))
        produce(f"{state}: a sequence in the middle", one, part(one, base_sequence=7))
        produce(f"{state}: the largest sequence", one, part(one, base_sequence=LARGEST_32))
        produce(f"{state}: a control batch", one, part(one, attributes=TRANSACTIONAL | CONTROL))
        produce(f"{state}: not transactional", one, part(one, 1, attributes=0))
        produce(f"{state}: two producers", one, part(one), part(other, 1))
        produce(f"{state}: one transactional and one not", one, part(one), part(one, 1, attributes=0))
        produce(f"{state}: an unknown partition", one, part(one, 9))
        produce(f"{state}: a known and an unknown partition", one, part(one), part(one, 9))
        produce(f"{state}: acks 1", one, part(one, base_sequence=1), acks=1)
        produce(f"{state}: acks 7", one, part(one, base_sequence=2), acks=7)
        produce(f"{state}: no records at all", one)
        one.describe(f"{state}: after all this")


@scenario("produce", least=9, most=11, alone=True)
def overtake_a_refused_batch(talk: Conversation) -> None:
    """Of two batches in flight the first is refused, and the second comes before it comes again."""
    one = next(ids(talk, "overtake")).bring_to("Empty")
    talk.send("produce", one.producing("a"), note="the first, to a partition that was not added")
    talk.send("add_partitions_to_txn", one.adding(0), version=3, note="adds it")
    talk.send("produce", one.producing("b", sequence=1), note="the second")
    talk.send("produce", one.producing("a"), note="the first again")
    talk.send("produce", one.producing("b", sequence=1), note="the second again")
    one.end(commit=True)
    talk.send("produce", one.producing("c", sequence=2), note="the third, after the end")
    talk.send("add_partitions_to_txn", one.adding(0), version=3, note="adds it to the next transaction")
    talk.send("produce", one.producing("d", sequence=3), note="the fourth")
    talk.send("produce", one.producing("c", sequence=2), note="the third again")
