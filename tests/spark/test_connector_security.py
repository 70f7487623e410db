"""Spark's own Kafka connector reads from and writes to Penstock each way that a client can get in."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.clients.secured import ALLOWED_URLS, WAYS, Secured, Way, secured_broker, token_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="module")
def with_connector(spark: SparkSession, connector_jars: list[str]) -> SparkSession:
    if not connector_jars:
        pytest.skip("Spark's own Kafka connector is not there: set PENSTOCK_SPARK_CONNECTOR to the folder of its jars")
    return spark


def options(way: Way, folder: Path) -> dict[str, str]:
    settings = {"bootstrap.servers": way.address, **way.java_properties(folder)}
    return {f"kafka.{name}": value for name, value in settings.items()}


@pytest.mark.parametrize("name", WAYS)
def test_sparks_own_connector_reads_and_writes(
    secured: Secured, with_connector: SparkSession, tmp_path: Path, name: str
) -> None:
    spark, way = with_connector, secured.way(name)
    assert spark._jvm is not None
    spark._jvm.java.lang.System.setProperty(ALLOWED_URLS, token_url(tmp_path))
    topic = f"{way.prefix}{uuid.uuid4().hex[:8]}"
    settings = options(way, tmp_path)
    rows = spark.createDataFrame([("one",), ("two",)], "value string")
    rows.write.format("kafka").options(**settings).option("topic", topic).save()
    read = spark.read.format("kafka").options(**settings).option("subscribe", topic)
    prefixed = read.option("groupIdPrefix", way.prefix).load()
    assert sorted(bytes(row.value) for row in prefixed.collect()) == [b"one", b"two"]


def test_a_wrong_password_fails_the_query(secured: Secured, with_connector: SparkSession, tmp_path: Path) -> None:
    settings = options(secured.way("scram-sha-512-over-tls").but(password="wrong"), tmp_path)
    reader = with_connector.read.format("kafka").options(**settings).option("subscribe", "scram-sha-512-over-tls-t")
    with pytest.raises(Exception, match=r"SaslAuthenticationException|invalid credentials"):
        reader.load().collect()
