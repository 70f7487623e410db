"""What two brokers may answer differently without being different: ids, hosts, times, wordings, orders.

`Mask` turns one response into its comparable form. Ids that a broker invents (topic ids, producer ids, member ids,
session ids) become numbers by first appearance, so that a response that mixes two of them up still shows. A sentence in
an error message is the broker's own wording: only whether there is one counts. Arrays of structs are sets to every
client, so they are sorted by what names their elements, unless an element answers the request's by its place alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection

from .batches import show_batches
from .kio_codec import Json

CONSTANT = {
    "throttle_time": "<throttle>",
    "cluster_id": "<cluster>",
    "client_host": "<host>",
    "port": "<port>",
    "log_dir": "<folder>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "broker_epoch": "<epoch>",
    "finalized_features_epoch": "<epoch>",
    "documentation": "<text>",
    "last_timestamp": "<time>",
    "transaction_start_time": "<time>",
}
IDS = {
    "topic_id": "topic",
    "producer_id": "producer",
    "member_id": "member",
    "leader": "member",
    "session_id": "session",
}
PRESENCE = ("error_message", "batch_index_error_message")
NAMES = ("name", "topic", "topic_name", "resource_name", "resource_type", "feature", "group_id", "api_key", "node_id")
PLACES = ("partition_index", "partition", "index", "partition_id", "first_offset", "transactional_id", "key")
NOTHING: tuple[Json, ...] = (-1, "", None, str(uuid.UUID(int=0)))
NO_SESSION = 0
BY_PLACE = frozenset({"error_code", "error_message", "matching_acls"})
"""What the answer to one of several ACLs or filters consists of."""


class Mask:
    """One per conversation: remembers which invented id has which number."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[Json, str]] = {}

    def learn(self, kind: str, value: Json, name: str) -> None:
        """An id that bears this name from now on instead of a number."""
        self._numbers.setdefault(kind, {})[value] = f"<{kind} {name}>"

    def apply(self, response: Json, hidden: Collection[str] = ()) -> Json:
        return self._masked(self._sorted(self._without(response, hidden) if hidden else response), "")

    def _without(self, value: Json, hidden: Collection[str]) -> Json:
        if isinstance(value, dict):
            return {k: "<hidden>" if k in hidden else self._without(inner, hidden) for k, inner in value.items()}
        return [self._without(inner, hidden) for inner in value] if isinstance(value, list) else value

    def _sorted(self, value: Json) -> Json:
        """Arrays of structs in the order of what names their elements."""
        if isinstance(value, dict):
            return {key: self._sorted(inner) for key, inner in value.items()}
        if isinstance(value, list):
            inside = [self._sorted(inner) for inner in value]
            is_by_place = all(isinstance(inner, dict) and inner.keys() <= BY_PLACE for inner in inside)
            return inside if is_by_place else sorted(inside, key=self._order)
        return value

    def _order(self, value: Json) -> tuple[str, str]:
        if not isinstance(value, dict):
            return ("", json.dumps(value).rjust(20))
        comparable = {name: self._known(name, inner) for name, inner in value.items()}
        named = [str(comparable[name]).rjust(12) for name in (*NAMES, *PLACES, *IDS) if name in value]
        return ("|".join(named), json.dumps(comparable, sort_keys=True))

    def _known(self, name: str, value: Json) -> Json:
        """An invented id orders by its number; one that has not been seen before orders by what stands beside it."""
        return self._numbers.get(IDS[name], {}).get(value, "") if self._is_id(name, value) else value

    def _is_id(self, name: str, value: Json) -> bool:
        if name not in IDS or not isinstance(value, str | int) or value in NOTHING:
            return False
        return not (name == "session_id" and value == NO_SESSION)

    def _masked(self, value: Json, name: str) -> Json:
        if isinstance(value, dict):
            endpoint = {"host": "<host>"} if "port" in value and "host" in value else {}
            return {key: self._masked(inner, key) for key, inner in value.items()} | endpoint
        if isinstance(value, list):
            return [self._masked(inner, name) for inner in value]
        if name == "records":
            return [self._masked(shown, "") for shown in show_batches(bytes.fromhex(value))] if value else value
        if name in CONSTANT:
            return CONSTANT[name]
        if name in PRESENCE:
            return None if value in (None, "") else "<text>"
        if self._is_id(name, value):
            return self._numbered(IDS[name], value)
        if name.endswith("timestamp") or name == "log_append_time":
            return value if not isinstance(value, int) or value < 1_750_000_000_000 else "<time>"
        return value

    def _numbered(self, kind: str, value: Json) -> str:
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(value, f"<{kind} {len(numbers) + 1}>")
