from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from penstock.broker.assembly import BUILDERS
from penstock.broker.gate import Access
from penstock.broker.handlers.table import EVERYBODY, SERVED
from penstock.wire.api import API_TABLE, ApiKey

# What a client may do before anybody knows who it is, what depends on the token that the request carries, and
# metrics of the client itself, which Kafka asks no rights for.
OPEN_TO_EVERYBODY = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}


def test_every_api_of_kafka_is_answered() -> None:
    assert set(SERVED) == set(API_TABLE)


def test_every_api_says_what_it_does_to_what() -> None:
    for key, served in SERVED.items():
        assert (served.accesses == EVERYBODY) == (key in OPEN_TO_EVERYBODY), key.name
        assert all(isinstance(access, Access) for access in served.accesses), key.name


def test_every_module_of_handlers_can_be_built() -> None:
    assert set(BUILDERS) == {served.module for served in SERVED.values()}


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_a_handler_is_named_after_its_api_and_typed_by_its_request(key: ApiKey) -> None:
    module = import_module(f"penstock.broker.handlers.{SERVED[key].module}")
    annotations = {
        method.name: ast.unparse(method.args.args[1].annotation or ast.Constant(None))
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Handlers")
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and len(method.args.args) == 2
    }
    assert annotations.get(key.name.lower()) == f"Request[m.{API_TABLE[key].name}Request]"


def test_starting_does_not_load_the_code_of_capabilities_that_nobody_has_used() -> None:
    program = "import sys, penstock.broker.run; print([name for name in sys.modules if 'groups.shard' in name])"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert out.stdout.strip() == "[]"
