"""Sample messages made from the schemas alone."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire import schema

_VALUES: dict[str, object] = {
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "bool": True,
    "uuid": bytes(range(16)),
    "float64": 1.5,
}


def filled(cls: type[m.Message], version: int | None = None) -> m.Message:
    """A message with one element in every array and a value in every field that the version has (the newest one)."""
    wanted = cls.SCHEMA.versions.high if version is None else version

    def value(field: schema.Field) -> object:
        if field.struct is not None:
            one: object = struct(field.struct, getattr(cls, field.struct.name))
        else:
            one = _VALUES.get(field.type, 3)
        return [one] if field.is_array else one

    def struct(item: schema.Struct, kind: type[m.Struct]) -> m.Struct:
        present = [field for field in item.fields if wanted in field.versions or wanted in field.tagged]
        return kind(**{field.name: value(field) for field in present})

    made = struct(cls.SCHEMA, cls)
    assert isinstance(made, m.Message)
    return made


def all_message_names() -> list[str]:
    return [message.name for table in schema.table_names() for message in schema.table(table).values()]
