"""The dashboard and the alert rules name metrics that exist, and Prometheus takes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.testing import Broker
from tests.broker.test_metrics import text
from tests.docs.monitoring import (
    ALERTS,
    DASHBOARD,
    FOLDER,
    PANELS,
    RULES,
    alerts,
    counters,
    dashboard,
    metrics_of,
    rated_names,
    sample_names,
)

EXPRESSIONS = [panel[3] for panels in PANELS.values() for panel in panels] + [rule[1] for rule in RULES]
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=str(Path(sys.executable).parent))
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")


def test_the_files_are_what_the_generator_makes() -> None:
    assert DASHBOARD.read_text("utf-8") == dashboard(), "run python -m tests.docs.monitoring"
    assert ALERTS.read_text("utf-8") == alerts(), "run python -m tests.docs.monitoring"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_metrics_that_exist_and_rates_counters_only(expression: str) -> None:
    assert metrics_of(expression)
    assert metrics_of(expression) <= sample_names()
    assert rated_names(expression) <= counters()


def _promtool(*arguments: str, stdin: str = "") -> None:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], cwd=FOLDER, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr
    assert "error" not in done.stderr.lower(), done.stderr


def test_every_rule_has_a_test_in_which_it_fires() -> None:
    document = yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))
    fired = {case["alertname"] for test in document["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule[0] for rule in RULES}


@needs_promtool
def test_promtool_takes_the_rules_and_they_fire_when_they_should() -> None:
    _promtool("check", "rules", "alerts.yml")
    _promtool("test", "rules", "alerts_test.yml")


@needs_promtool
def test_promtool_reads_what_a_broker_serves() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        broker.create_topic("orders")
        _promtool("check", "metrics", stdin=text(broker))  # 3: only advice on the style of names
