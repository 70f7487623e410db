"""The Helm chart, linted and rendered by helm (`go install helm.sh/helm/v3/cmd/helm@latest`)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock import __version__
from penstock.broker.config import BrokerConfig, from_environment

CHART = Path(__file__).parents[2] / "packaging" / "helm" / "penstock"


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    assert shutil.which("helm"), "helm is not installed: go install helm.sh/helm/v3/cmd/helm@latest"
    return subprocess.run(["helm", *words], capture_output=True, text=True, timeout=120)


def rendered(*words: str) -> list[Any]:
    done = helm("template", "penstock", str(CHART), *words)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


@pytest.mark.long
def test_it_passes_lint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_one_broker_is_rendered_with_its_configs() -> None:
    objects = rendered("--set-json", 'configs={"num.partitions": 3, "log.retention.hours": 24}')
    kinds = sorted(each["kind"] for each in objects)
    assert kinds == ["PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    broker = next(each for each in objects if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"][
        0
    ]
    environment = {each["name"]: each["value"] for each in broker["env"] if "value" in each}
    named = {name: value for name, value in environment.items() if name.startswith("KAFKA_")}
    named["KAFKA_ADVERTISED_LISTENERS"] = re.sub(r"\$\(.*?\)", "x", named["KAFKA_ADVERTISED_LISTENERS"])
    config = BrokerConfig(from_environment(named))
    assert (config.num_partitions, config.unknown) == (3, [])
    assert broker["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.long
def test_several_brokers_need_a_cluster() -> None:
    refused = helm("template", "penstock", str(CHART), "--set", "brokers=3")
    assert refused.returncode != 0
    assert "cluster.secret" in refused.stderr
    objects = rendered("--set", "brokers=3", "--set", "cluster.secret=penstock-cluster")
    stateful = next(each for each in objects if each["kind"] == "StatefulSet")
    assert stateful["spec"]["replicas"] == 3
    assert stateful["spec"]["podManagementPolicy"] == "Parallel"
