"""Source, sink, loads and workers over SASL_SSL on a real Spark; and where the password must not appear."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.client.sync import Consumer, Producer
from penstock.spark.load import load
from penstock.spark.pipelines import Pipeline, TopicSink, run
from penstock.spark.workers import work
from penstock.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.client.types import ConsumerRecord

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PASSWORD = "Xyzzy-4711-plugh"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(sasl="SCRAM-SHA-512", tls=True, users={"lake": PASSWORD}) as it:
        with Producer(it.client_settings()) as producer:
            for number in range(300):
                producer.send("in", f"{number}")
        yield it


def secure(broker: Broker) -> dict[str, str]:
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="lake" password="{PASSWORD}";'
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": broker.ca_file,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": jaas,
    }


def values(broker: Broker, topic: str) -> list[int]:
    found: list[int] = []
    with Consumer(broker.client_settings(), isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in consumer.partitions_for(topic)])
        while records := consumer.poll(1000):
            found += [int(record.value or b"") for record in records]
    return sorted(found)


def shown_by_spark(spark: SparkSession) -> str:
    """What Spark's page would tell about the queries, and the command lines of all processes."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(number).physicalPlanDescription() for number in range(executions.size())]
    assert plans
    return "\n".join([*plans, subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout])


def test_a_topic_is_read_and_written(broker: Broker, spark: SparkSession) -> None:
    frame = spark.read.format("penstock").options(**secure(broker), subscribe="in").load()
    assert frame.count() == 300
    frame.selectExpr("value").write.format("penstock").options(**secure(broker), topic="copied").mode("append").save()
    assert values(broker, "copied") == list(range(300))
    assert PASSWORD not in frame._jdf.queryExecution().toString()
    assert PASSWORD not in shown_by_spark(spark)


def test_a_stream_leaves_no_password_in_its_checkpoint(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    reader = spark.readStream.format("penstock").options(**secure(broker), subscribe="in", startingOffsets="earliest")
    writer = reader.load().selectExpr("value").writeStream.format("penstock")
    writer = writer.options(**secure(broker), topic="streamed", checkpointLocation=str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert values(broker, "streamed") == list(range(300))
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert PASSWORD not in str(query.recentProgress)


@pytest.mark.parametrize("transformed", [False, True], ids=["in tasks", "through Spark SQL"])
def test_a_topic_is_loaded(broker: Broker, spark: SparkSession, tmp_path: Path, transformed: bool) -> None:
    transforms = [lambda frame: frame.where("offset >= 0")] if transformed else []
    done = load(
        "in", str(tmp_path / "lake"), format="parquet", options=secure(broker), transforms=transforms, spark=spark
    )
    assert done.rows == 300
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_pipeline_and_its_workers_log_in(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    settings = broker.client_settings()
    servers = settings.pop("bootstrap_servers")
    declared = Pipeline(name="copy", topics=["in"], sink=TopicSink("piped"))
    done = run(declared, bootstrap_servers=servers, security=settings, folder=tmp_path, spark=spark)
    assert done.rows == 300
    assert values(broker, "piped") == list(range(300))
    assert PASSWORD not in (tmp_path / "copy" / "history.jsonl").read_text()

    def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        int(record.value or b"")

    worked = work(
        "in", "workers", handle, bootstrap_servers=servers, security=settings, auto_offset_reset="earliest", spark=spark
    )
    assert worked.counters.accepted == 300


def test_a_wrong_password_fails_a_query_at_once(broker: Broker, spark: SparkSession) -> None:
    options = {**secure(broker), "subscribe": "in"}
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(PASSWORD, "guessed")
    with pytest.raises(Exception, match="refuses user 'lake'") as caught:
        spark.read.format("penstock").options(**options).load().count()
    assert "guessed" not in str(caught.value)
