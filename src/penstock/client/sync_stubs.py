"""`python -m penstock.client.sync_stubs`: writes sync.pyi from the asyncio classes, so that both have equal types."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from penstock.client import admin, consumer, producer, share_consumer

_HEAD = """# Made by `python -m penstock.client.sync_stubs`; do not edit.
# ruff: noqa
"""

_DELIVERY = """
class Delivery:
    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> RecordMetadata: ...
"""

_CLASSES: dict[str, tuple[type, str]] = {
    "Producer": (producer.Producer, "Producer"),
    "Consumer": (consumer.Consumer, "Consumer[K, V]"),
    "ShareConsumer": (share_consumer.ShareConsumer, "ShareConsumer[K, V]"),
    "Admin": (admin.Admin, "Admin"),
}
# Written out here because the blocking form differs in more than the word `async`.
_SPECIAL: dict[str, dict[str, str]] = {
    "ShareConsumer": {
        "run": (
            "def run(self, handler: Callable[[ConsumerRecord[K, V]], object], *, concurrency: int = 1) -> None: ..."
        ),
        "commit_async": "def commit_async(self) -> None: ...",
    },
}


def stub() -> str:
    """The text of sync.pyi."""
    bodies = [_class_stub(name, twin, own) for name, (twin, own) in _CLASSES.items()]
    body = _DELIVERY + "\n".join(bodies)
    return _HEAD + _imports(body) + body


def _class_stub(name: str, twin: type, own: str) -> str:
    lines = [f"\nclass {name}{'(Generic[K, V])' if '[' in own else ''}:"]
    lines += [f"    {line}" for line in _constructors(twin)]
    lines.append(f"    def __enter__(self) -> {own}: ...")
    lines.append("    def __exit__(self, *_: object) -> None: ...")
    if "[" in own:
        lines.append("    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]: ...")
    for method, member in inspect.getmembers(twin):
        if method.startswith("_"):
            continue
        special = _SPECIAL.get(name, {}).get(method)
        if special is not None:
            lines.append(f"    {special}")
        elif isinstance(member, property):
            getter = member.fget
            assert getter is not None
            lines.append(f"    @property\n    def {method}(self) -> {inspect.signature(getter).return_annotation}: ...")
        elif callable(member):
            lines += [f"    {line}" for line in _method_stub(method, member)]
    return "\n".join(lines) + "\n"


def _constructors(twin: type) -> list[str]:
    """The overloads of `__init__` as they stand in the source."""
    tree = ast.parse(inspect.getsource(twin))
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    found = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    overloads = [node for node in found if any("overload" in ast.unparse(d) for d in node.decorator_list)]
    lines: list[str] = []
    for node in overloads or found:
        prefix = ["@overload"] if overloads else []
        lines += [*prefix, f"def __init__({ast.unparse(node.args)}) -> None: ..."]
    return lines


def _method_stub(name: str, method: object) -> list[str]:
    assert callable(method)
    signature = inspect.signature(method)
    managed = hasattr(method, "__wrapped__") and inspect.isasyncgenfunction(inspect.unwrap(method))
    result = str(signature.return_annotation)
    if managed:
        result = re.sub(r"^AsyncIterator", "Iterator", result)
    elif result.startswith("asyncio.Task"):
        result = "None"
    if result == "ShareConsumer[K, V]" or name == "start":
        result = "Self"
    text = str(signature.replace(return_annotation=inspect.Signature.empty)).replace("'", "")
    text = re.sub(r"= <[^>]*>", "= ...", text)  # enum members have no source text
    return [*(["@contextmanager"] if managed else []), f"def {name}{text} -> {result}: ..."]


def _imports(body: str) -> str:
    """The import statements of the asyncio modules, as far as the stub uses the names."""
    wanted: dict[str, set[str]] = {}
    names = set(re.findall(r"[A-Za-z_]\w*", body))
    modules = [producer, consumer, share_consumer, admin, *map(inspect.getmodule, admin.Admin.__mro__[1:-1])]
    for module in modules:
        if module is None:
            continue
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
                for alias in node.names:
                    if alias.name in names and alias.name not in _CLASSES and alias.name != "Delivery":
                        wanted.setdefault(node.module, set()).add(alias.name)
        for defined in vars(module):
            owner = getattr(getattr(module, defined), "__module__", None)
            if defined in names and owner == module.__name__ and defined not in _CLASSES:
                wanted.setdefault(module.__name__, set()).add(defined)
            elif defined in names and not hasattr(getattr(module, defined), "__module__"):
                continue
    for extra, module_name in _ALIASES.items():
        if extra in names:
            wanted.setdefault(module_name, set()).add(extra)
    wanted.setdefault("collections.abc", set()).update({"Iterator"})
    wanted.setdefault("contextlib", set()).add("contextmanager")
    wanted["contextlib"].discard("asynccontextmanager")
    wanted.setdefault("typing", set()).update({"Generic", "Self", "Unpack", "overload"})
    wanted.setdefault("penstock.client.types", set()).update({"K", "V", "RecordMetadata"})
    lines = [f"from {module} import {', '.join(sorted(found))}" for module, found in sorted(wanted.items())]
    return "import re\n" + "\n".join(lines) + "\n"


# Type aliases carry no trace of where they were defined.
_ALIASES = {
    "Offsets": "penstock.client.consumer",
    "AckCallback": "penstock.client.share_consumer",
    "Outcome": "penstock.client.admin.base",
}


if __name__ == "__main__":
    Path(__file__).with_name("sync.pyi").write_text(stub())
