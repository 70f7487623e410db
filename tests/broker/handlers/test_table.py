from __future__ import annotations

import subprocess
import sys

from penstock.broker.handlers.table import HANDLER_MODULES, find_handler
from penstock.wire.api import API_TABLE


def test_every_api_that_is_advertised_has_a_handler() -> None:
    for key in HANDLER_MODULES:
        assert callable(find_handler(key)), key


def test_every_api_of_kafka_is_answered() -> None:
    assert set(HANDLER_MODULES) == set(API_TABLE)


def test_starting_does_not_load_the_code_of_capabilities_that_nobody_has_used() -> None:
    program = "import sys, penstock.broker.run; print([name for name in sys.modules if 'groups.shard' in name])"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert out.stdout.strip() == "[]"
