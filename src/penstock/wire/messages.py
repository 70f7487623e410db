"""One class per Kafka message, built from its schema table when it is first asked for.

    from penstock.wire import messages as m
    m.FetchRequest(max_wait_ms=500, topics=[m.FetchRequest.FetchTopic(topic="t")])

Every class has `__slots__`, keyword (or positional) arguments with Kafka's defaults, equality and a readable repr. The
structs inside a message hang on the class of the message. `messages.pyi` beside this file, made by
`python -m penstock.wire.stubs`, tells type checkers and editors what is here.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.wire import schema

ZERO_UUID = bytes(16)


class _Unset:
    def __repr__(self) -> str:
        return "default"


_UNSET = _Unset()


class Struct:
    """What all structs and messages share."""

    __slots__ = ()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Message(Struct):
    """A whole message: a request, a response, or the key or value of a record in an internal topic."""

    __slots__ = ()

    SCHEMA: ClassVar[schema.Message]
    RECORD_TYPE: ClassVar[int]
    # Compiled by penstock.wire.codec on first use, per version.
    ENCODERS: ClassVar[dict[int, object]]
    RESPONSE_ENCODERS: ClassVar[dict[int, object]]
    DECODERS: ClassVar[dict[int, object]]


def default_source(field: schema.Field) -> str:
    """The Python expression of a field's default value; `[]` and struct defaults are made anew for every instance."""
    if field.default == "null":
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{field.struct.name}()"
    if field.type == "string":
        return repr(field.default or "")
    if field.type == "uuid":
        return "ZERO_UUID"
    if field.type == "bool":
        return "True" if field.default == "true" else "False"
    if field.type == "float64":
        return repr(float(field.default or 0.0))
    if field.type in ("bytes", "records"):
        # ShareFetch could say null in version 0 only, which is gone: no records are empty bytes there.
        always_nullable = field.nullable.low <= field.versions.low and field.nullable.high >= field.versions.high
        return "None" if field.type == "records" and always_nullable else "b''"
    return str(int(field.default or "0", 0))


def _build(struct: schema.Struct, base: type, namespace: dict[str, object]) -> type:
    """A class with slots and an `__init__` written out, which is the fastest kind of object that Python has."""
    parameters, body = [], []
    for field in struct.fields:
        default = default_source(field)
        if default.endswith(("[]", "()")):
            parameters.append(f"{field.name}=_UNSET")
            body.append(f"    self.{field.name} = {default} if {field.name} is _UNSET else {field.name}")
        else:
            parameters.append(f"{field.name}={default}")
            body.append(f"    self.{field.name} = {field.name}")
    same = " and ".join(f"self.{field.name} == other.{field.name}" for field in struct.fields) or "True"
    source = (
        f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(body or ["    pass"]) + "\n"
        "def __eq__(self, other):\n"
        "    if other.__class__ is not self.__class__: return NotImplemented\n"
        f"    return {same}\n"
    )
    made: dict[str, object] = {}
    exec(source, namespace, made)
    attributes = {
        "__slots__": tuple(field.name for field in struct.fields),
        "__match_args__": tuple(field.name for field in struct.fields),
        "__init__": made["__init__"],
        "__eq__": made["__eq__"],
        "__hash__": None,
        "__module__": __name__,
    }
    return type(struct.name, (base,), attributes)


def _build_message(message: schema.Message) -> type[Message]:
    namespace: dict[str, object] = {"_UNSET": _UNSET, "ZERO_UUID": ZERO_UUID}
    for struct in message.structs.values():
        namespace[struct.name] = _build(struct, Struct, namespace)
    made = _build(message, Message, namespace)
    assert issubclass(made, Message)
    made.SCHEMA = message
    made.ENCODERS = {}
    made.RESPONSE_ENCODERS = {}
    made.DECODERS = {}
    if message.record_type is not None:
        made.RECORD_TYPE = message.record_type
    for struct in message.structs.values():
        nested = namespace[struct.name]
        assert isinstance(nested, type)
        nested.__qualname__ = f"{message.name}.{struct.name}"
        setattr(made, struct.name, nested)
    return made


def message_class(name: str) -> type[Message]:
    """The class of a message by its Kafka name."""
    found = globals().get(name)
    if found is None:
        found = globals()[name] = _build_message(schema.find(name))
    assert isinstance(found, type)
    assert issubclass(found, Message)
    return found


def __getattr__(name: str) -> type[Message]:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return message_class(name)
    except LookupError as error:
        raise AttributeError(str(error)) from None
