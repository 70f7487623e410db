"""Each API finds its handler, which is built when it is first asked for and handed what it uses."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from penstock.broker.assembly import BUILDERS, HandlerTable, after, before_answering
from penstock.broker.features import SAFE_DOWNGRADE, SHARE_VERSION, UPGRADE, Update
from penstock.broker.handlers.disabled import DisabledHandlers
from penstock.broker.handlers.table import SERVED
from penstock.broker.parts import Parts
from penstock.wire.api import ApiKey
from tests.broker.memory_parts import MemoryFoundation


@pytest.fixture
def parts() -> Parts:
    return MemoryFoundation().parts()


def owner(handler: object) -> object:
    """The object whose method a handler is."""
    return inspect.unwrap(handler).__self__  # type: ignore[arg-type]


def test_each_module_of_handlers_has_a_builder_and_each_builder_a_module() -> None:
    assert set(BUILDERS) == {served.module for served in SERVED.values()}


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_each_api_is_handled_by_the_method_of_its_name(parts: Parts, key: ApiKey) -> None:
    handler = HandlerTable(parts).find(key)
    assert handler.__name__ == key.name.lower()
    assert type(owner(handler)).__module__ == f"penstock.broker.handlers.{SERVED[key].module}"


@pytest.mark.parametrize("module", BUILDERS)
def test_no_handler_is_handed_all_the_parts(parts: Parts, module: str) -> None:
    handlers = BUILDERS[module](parts)
    assert not [value for value in vars(handlers).values() if isinstance(value, Parts)]


def test_the_handlers_of_a_module_are_built_once(parts: Parts) -> None:
    table = HandlerTable(parts)
    create, delete = table.find(ApiKey.CREATE_TOPICS), table.find(ApiKey.DELETE_TOPICS)
    assert owner(create) is owner(delete) is owner(table.find(ApiKey.CREATE_TOPICS))


def test_the_apis_of_a_feature_that_is_switched_off_are_refused_until_it_is_on_again(parts: Parts) -> None:
    table = HandlerTable(parts)
    parts.features.update([Update(SHARE_VERSION, 0, SAFE_DOWNGRADE)])
    assert isinstance(owner(table.find(ApiKey.SHARE_FETCH)), DisabledHandlers)
    assert not isinstance(owner(table.find(ApiKey.FETCH)), DisabledHandlers)
    parts.features.update([Update(SHARE_VERSION, 1, UPGRADE)])
    assert not isinstance(owner(table.find(ApiKey.SHARE_FETCH)), DisabledHandlers)


def test_the_lease_is_looked_at_before_a_request_and_before_its_answer() -> None:
    happened: list[str] = []

    def handler(request: str) -> str:
        happened.append(request)
        return "answer"

    whole = after(lambda: happened.append("look"), before_answering(lambda: happened.append("look again"), handler))  # type: ignore[arg-type]
    assert whole("request") == "answer"  # type: ignore[comparison-overlap, arg-type]
    assert happened == ["look", "request", "look again"]


def test_building_a_handler_builds_only_the_parts_that_it_uses(parts: Parts) -> None:
    table = HandlerTable(parts)
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.API_VERSIONS):
        table.find(key)
    assert not any(map(parts.is_built, ("groups", "transactions", "share_groups", "transactional_writes")))
    table.find(ApiKey.JOIN_GROUP)
    assert parts.is_built("groups")
    assert not parts.is_built("transactions")


def test_handlers_are_imported_when_the_first_request_arrives() -> None:
    program = (
        "import sys\n"
        "from penstock.wire.api import ApiKey\n"
        "from tests.broker.memory_parts import MemoryFoundation\n"
        "from penstock.broker.assembly import HandlerTable\n"
        "table = HandlerTable(MemoryFoundation().parts())\n"
        "handlers = {name for name in sys.modules if name.startswith('penstock.broker.handlers.')}\n"
        "assert handlers == {'penstock.broker.handlers.table'}, handlers\n"
        "table.find(ApiKey.FETCH)\n"
        "assert 'penstock.broker.handlers.fetch' in sys.modules\n"
        "assert 'penstock.broker.handlers.produce' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
