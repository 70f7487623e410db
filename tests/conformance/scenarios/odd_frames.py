"""Bodies that no schema allows: nothing where something has to be, lengths below zero, bytes left over."""

from __future__ import annotations

import struct

from tests.broker.raw import framed as frame

from ..conversation import Conversation
from ..kio_codec import Json, api_key, encode_request
from . import scenario
from .framing import header

NULL_ARRAY, NULL_STRING = struct.pack(">i", -1), struct.pack(">h", -1)


def flexible(key: int, version: int, body: bytes, tags: bytes = b"\0") -> bytes:
    """A request whose header has tagged fields."""
    return header(key, version) + tags + body


@scenario("api_versions", only=(0,))
def odd_bodies(talk: Conversation) -> None:
    def raw(note: str, api: str, version: int, body: bytes) -> None:
        talk.send_raw(frame(header(api_key(api), version) + body), f"{api} v{version}: {note}")

    def raw_flexible(note: str, api: str, version: int, body: bytes, tags: bytes = b"\0") -> None:
        talk.send_raw(frame(flexible(api_key(api), version, body, tags)), f"{api} v{version}: {note}")

    talk.producer_id()
    for word in "abcdefgh":
        talk.wait_for_coordinator(talk.name(word), 1)
    who = struct.pack(">qh", 1, 0)
    raw("null id", "end_txn", 2, NULL_STRING + who + b"\1")
    raw("id of length -2", "end_txn", 2, struct.pack(">h", -2) + who + b"\1")
    raw("id longer than the request", "end_txn", 2, struct.pack(">h", 1000) + who + b"\1")
    raw("cut off", "end_txn", 2, struct.pack(">h", 1) + b"x" + who)
    raw("a byte left over", "end_txn", 2, struct.pack(">h", 1) + b"x" + who + b"\1\0")
    raw("neither true nor false", "end_txn", 2, struct.pack(">h", 1) + b"x" + who + b"\7")
    raw("an id that is no text", "end_txn", 2, struct.pack(">h", 2) + b"\xff\xfe" + who + b"\1")
    raw_flexible("null id", "end_txn", 4, b"\0" + who + b"\1\0")
    raw_flexible("cut off before the tags", "end_txn", 4, b"\2x" + who + b"\1")
    raw_flexible("unknown tags", "end_txn", 4, b"\2x" + who + b"\1" + b"\2\5\1a\6\2bc")
    raw_flexible("tags out of order", "end_txn", 4, b"\2x" + who + b"\1" + b"\2\6\1a\5\2bc")
    raw_flexible("a tag twice", "end_txn", 4, b"\2x" + who + b"\1" + b"\2\5\1a\5\1b")
    raw_flexible("a tag longer than the request", "end_txn", 4, b"\2x" + who + b"\1" + b"\1\5\x7fa")
    raw_flexible("more tags than there are", "end_txn", 4, b"\2x" + who + b"\1" + b"\5\5\1a")
    raw_flexible("a length without an end", "end_txn", 4, b"\xff" * 8 + who + b"\1\0")
    raw_flexible("unknown tags in the header", "end_txn", 4, b"\2x" + who + b"\1\0", b"\1\5\1a")
    raw_flexible("no tags in the header", "end_txn", 4, b"", b"")
    raw("null topics", "add_partitions_to_txn", 2, b"\0\1x" + who + NULL_ARRAY)
    raw("topics of length -2", "add_partitions_to_txn", 2, b"\0\1x" + who + struct.pack(">i", -2))
    raw("null partitions", "add_partitions_to_txn", 2, b"\0\1x" + who + b"\0\0\0\1\0\1t" + NULL_ARRAY)
    raw("null name", "add_partitions_to_txn", 2, b"\0\1x" + who + b"\0\0\0\1" + NULL_STRING + b"\0\0\0\0")
    raw_flexible("null transactions", "add_partitions_to_txn", 4, b"\0\0")
    raw_flexible("null markers", "write_txn_markers", 1, b"\0\0")
    raw("null topics", "txn_offset_commit", 2, b"\0\1x\0\1g" + who + NULL_ARRAY)
    raw("null group", "add_offsets_to_txn", 2, b"\0\1x" + who + NULL_STRING)
    raw("null topics", "produce", 7, NULL_STRING + struct.pack(">hi", 1, 1000) + NULL_ARRAY)
    raw("null partitions", "produce", 7, NULL_STRING + struct.pack(">hi", 1, 1000) + b"\0\0\0\1\0\1t" + NULL_ARRAY)
    records = b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0"
    raw(
        "records of length -2",
        "produce",
        7,
        NULL_STRING + struct.pack(">hi", 1, 1000) + records + struct.pack(">i", -2),
    )
    raw(
        "records longer than the request",
        "produce",
        7,
        NULL_STRING + struct.pack(">hi", 1, 1000) + records + struct.pack(">i", 10_000),
    )
    start = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1)
    raw("null topics", "fetch", 11, start + NULL_ARRAY + b"\0\0\0\0\0\0")
    raw("null forgotten topics", "fetch", 11, start + b"\0\0\0\0" + NULL_ARRAY + b"\0\0")
    raw("null rack", "fetch", 11, start + b"\0\0\0\0\0\0\0\0" + NULL_STRING)
    raw("null topics", "list_offsets", 5, struct.pack(">ib", -1, 0) + NULL_ARRAY)
    raw("null topics", "create_topics", 4, NULL_ARRAY + struct.pack(">ib", 1000, 0))
    raw("null topics", "delete_topics", 3, NULL_ARRAY + struct.pack(">i", 1000))
    raw("null topics", "create_partitions", 1, NULL_ARRAY + struct.pack(">ib", 1000, 1))
    raw("null resources", "describe_configs", 2, NULL_ARRAY + b"\0")
    raw("null resources", "incremental_alter_configs", 0, NULL_ARRAY + b"\0")
    raw("null topics", "delete_records", 1, NULL_ARRAY + struct.pack(">i", 1000))
    raw("null topics", "offset_for_leader_epoch", 3, struct.pack(">i", -1) + NULL_ARRAY)
    raw("null topics", "describe_log_dirs", 1, NULL_ARRAY)
    raw("null key", "find_coordinator", 2, NULL_STRING + b"\0")
    raw("null groups", "describe_groups", 3, NULL_ARRAY + b"\0")


@scenario("api_versions", only=(0,))
def bytes_left_over(talk: Conversation) -> None:
    """Each of the core APIs with a byte too many, and with one too few."""
    nothing: dict[str, Json] = {}
    talk.producer_id()
    for api, version in (
        ("metadata", 12),
        ("fetch", 17),
        ("list_offsets", 9),
        ("create_topics", 7),
        ("delete_topics", 6),
        ("create_partitions", 3),
        ("describe_configs", 4),
        ("delete_records", 2),
        ("find_coordinator", 6),
        ("offset_fetch", 9),
        ("offset_commit", 9),
        ("init_producer_id", 5),
        ("end_txn", 5),
        ("describe_cluster", 2),
        ("api_versions", 4),
    ):
        whole = encode_request(api, version, nothing, 7, "c")
        talk.send_raw(frame(whole + b"\0"), f"{api} v{version}: a byte too many")
        talk.send_raw(frame(whole[:-1]), f"{api} v{version}: a byte too few")
