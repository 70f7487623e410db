"""A storm of faults on brokers over PostgreSQL and an object store: nothing is lost, doubled, torn or stuck."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.storm import spark
from tests.cluster.storm.faults import KINDS, NEED_SEVERAL, plan_of
from tests.cluster.storm.maintained import LATEST, TRIMMED
from tests.cluster.storm.run import storm

BROKERS = int(os.environ.get("PENSTOCK_STORM_BROKERS", "3"))
SHORT = [
    "kill",
    "part-brokers",
    "cut-commits",
    "stop-long",
    "stored-unanswered",
    "part-postgres",
    "postgres-kill",
    "terminate",
]
LEASE = {"broker.session.timeout.ms": 3000}


def test_a_plan_is_the_same_for_the_same_seed_and_has_all_kinds_alike() -> None:
    assert plan_of(7, 200, 3) == plan_of(7, 200, 3) != plan_of(8, 200, 3)
    counts = Counter(fault.kind for fault in plan_of(7, 200, 3))
    assert counts.keys() == KINDS.keys()
    assert min(counts.values()) >= 10


@pytest.mark.timeout(400)
async def test_nothing_is_lost_in_a_short_storm(tmp_path: Path) -> None:
    result = await storm(tmp_path, 16, len(SHORT), BROKERS, scale=0.2, kinds=SHORT, configs=LEASE)
    assert result.wrong == [], result.summary
    assert result.unproven == []
    assert result.faults == Counter(SHORT)
    assert result.removed[TRIMMED] > 0


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
async def test_nothing_is_lost_in_a_long_storm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PENSTOCK_STORM_SEED runs another one, PENSTOCK_STORM_FAULTS a longer or shorter one.

    Spark takes part; an environment without it has to say PENSTOCK_STORM_SPARK=no, so that nobody leaves it out
    unawares.
    """
    with_spark = os.environ.get("PENSTOCK_STORM_SPARK") != "no"
    assert spark.is_installed() or not with_spark, "install Spark with `make soak`, or set PENSTOCK_STORM_SPARK=no"
    seed = int(os.environ.get("PENSTOCK_STORM_SEED", "1"))
    count = int(os.environ.get("PENSTOCK_STORM_FAULTS", "200"))
    with capsys.disabled():
        result = await storm(tmp_path, seed, count, BROKERS, tell=True, with_spark=with_spark)
        print(result.summary)
    assert result.wrong == [], result.summary
    assert result.unproven == []
    expected = set(KINDS) - (NEED_SEVERAL if BROKERS == 1 else set())
    assert result.faults.keys() == expected
    assert min(result.faults.values()) >= count // 20
    assert min(result.removed[topic] for topic in (LATEST, TRIMMED)) > 0
