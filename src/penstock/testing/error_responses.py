"""Error responses to requests of any API, built from the schemas.

Kafka has no error envelope: there is an error code in each partition, topic or group of a response, or in the response
itself. The error response therefore mirrors the request. Each array of the response whose elements carry an error code
is filled from the array of the request that it answers, with names and ids copied over. Where nothing can be mirrored
(Heartbeat, EndTxn, a fetch that names no partition) the response's own error code is set.
"""

from __future__ import annotations

from penstock.wire import schema
from penstock.wire.api import API_TABLE
from penstock.wire.messages import Message, Struct

_CODES = ("error_code", "partition_error_code")

# What a request calls the same thing as the response, where the names differ.
_SAME = {
    "partition_index": ("partition", "index"),
    "partition": ("partition_index", "index"),
    "index": ("partition", "partition_index"),
    "name": ("topic", "topic_name"),
    "topic": ("name", "topic_name"),
    "topic_name": ("topic", "name"),
    "resource_name": ("name",),
    "group_id": ("group",),
}

# The field of a response's element that a plain element of the request's array (a name, a number) goes into.
_PLAIN_TARGETS = {
    "string": ("name", "topic", "topic_name", "key", "group_id", "transactional_id", "member_id"),
    "int32": ("partition_index", "partition", "index"),
    "uuid": ("topic_id",),
}


def error_response(api_key: int, version: int, request: Message, code: int, *, whole: bool = False) -> Message:
    """What the API answers when everything that `request` asks fails with `code`.

    `whole` sets the response's own error code, in responses that have one, and leaves out everything else.
    """
    response = API_TABLE[api_key].response()
    mirror = _Mirror(type(response), version, code)
    if whole or not mirror.fill_arrays(type(response).SCHEMA, response, type(request).SCHEMA, request):
        mirror.set_own_code(type(response).SCHEMA, response)
    return response


class _Mirror:
    def __init__(self, cls: type[Message], version: int, code: int) -> None:
        self._cls = cls
        self._version = version
        self._code = code

    def _present(self, struct: schema.Struct) -> list[schema.Field]:
        return [f for f in struct.fields if self._version in f.versions or self._version in f.tagged]

    def set_own_code(self, struct: schema.Struct, target: Struct) -> bool:
        for field in self._present(struct):
            if field.name in _CODES and not field.is_array:
                setattr(target, field.name, self._code)
                return True
        return False

    def _carries_code(self, struct: schema.Struct) -> bool:
        return any(
            field.name in _CODES or (field.struct is not None and field.is_array and self._carries_code(field.struct))
            for field in self._present(struct)
        )

    def fill_arrays(
        self, struct: schema.Struct, target: Struct, request_struct: schema.Struct, requested: Struct
    ) -> bool:
        """Fill the arrays of `target` that carry error codes; False when there was nothing to fill them from."""
        sources = [
            field for field in self._present(request_struct) if field.is_array and getattr(requested, field.name)
        ]
        filled = False
        for field in self._present(struct):
            if field.is_array and field.struct is not None and self._carries_code(field.struct) and sources:
                source = next((s for s in sources if s.name == field.name), sources[0])
                items = getattr(requested, source.name)
                setattr(target, field.name, [self._element(field.struct, source, item) for item in items])
                filled = True
        return filled

    def _element(self, struct: schema.Struct, source: schema.Field, requested: object) -> Struct:
        element: Struct = getattr(self._cls, struct.name)()
        if source.struct is None or not isinstance(requested, Struct):
            for name in _PLAIN_TARGETS.get(source.type, ()):
                if any(field.name == name for field in self._present(struct)):
                    setattr(element, name, requested)
                    break
            self.set_own_code(struct, element)
            return element
        for field in self._present(struct):
            if field.is_array or field.struct is not None or field.name in _CODES:
                continue
            for name in (field.name, *_SAME.get(field.name, ())):
                if hasattr(requested, name):
                    setattr(element, field.name, getattr(requested, name))
                    break
        if not self.fill_arrays(struct, element, source.struct, requested):
            self.set_own_code(struct, element)
        return element
