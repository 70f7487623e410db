"""One Spark for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.cluster import Standalone


@pytest.fixture(scope="session")
def connector_jars() -> list[str]:
    """The jars of Spark's own Kafka connector, if they are there."""
    default = Path.home() / ".cache" / "penstock" / "spark-connector-4.2.0"
    folder = Path(os.environ.get("PENSTOCK_SPARK_CONNECTOR", default))
    return [str(jar) for jar in sorted(folder.glob("*.jar"))]


@pytest.fixture(scope="session")
def spark(connector_jars: list[str]) -> Iterator[SparkSession]:
    """Two cores; a task may fail twice before its job does."""
    from penstock.spark.session import session

    config: dict[str, object] = {"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"}
    if connector_jars:
        config["spark.jars"] = ",".join(connector_jars)
    made = session("penstock tests", "local[2,3]", log_level="OFF", config=config)
    yield made
    made.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    from tests.spark.cluster import Standalone

    made = Standalone(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()
