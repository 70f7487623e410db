"""One Spark for all tests that need one: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores; a task may fail twice before its job does."""
    from penstock.spark.session import session

    made = session(
        "penstock tests",
        "local[2,3]",
        log_level="OFF",
        config={"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"},
    )
    yield made
    made.stop()
