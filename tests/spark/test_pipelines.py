"""Declared pipelines: how files are read, what a dry run says, and the examples on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from penstock.cli.load import noted
from penstock.client.errors import UsageError
from penstock.client.sync import Producer
from penstock.spark.load import LoadSummary
from penstock.spark.pipelines import (
    History,
    Pipeline,
    QueueSink,
    RunSummary,
    TableSink,
    TopicSink,
    dry_run,
    read_pipeline,
    run,
)
from penstock.testing.broker import Broker
from tests.spark.topics import read_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


def produce(broker: Broker, count: int, *, topic: str = "orders", partitions: int = 2) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            order = {"id": number, "customer": f"c{number}", "amount": number + 1}
            producer.send(topic, json.dumps(order), partition=number % partitions)


def read_all(broker: Broker, topic: str) -> list[Any]:
    return [json.loads(value) for value in read_committed(broker, topic)]


def test_the_examples_are_read() -> None:
    raw = read_pipeline(EXAMPLES / "raw_to_delta.yaml")
    assert isinstance(raw.sink, TableSink)
    assert raw.sink.partition_by == ["date"]
    totals = read_pipeline(EXAMPLES / "totals.py")
    assert isinstance(totals.sink, TopicSink)
    assert len(totals.transforms) == 1
    enrich = read_pipeline(EXAMPLES / "enrich.py")
    assert isinstance(enrich.sink, QueueSink)


def test_yaml_names_functions_of_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_yaml.py").write_text("def keep(frame):\n    return frame\n")
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: p\ntopics: a, b\ntransforms: ['beside_the_yaml:keep']\noptions: {minPartitions: 3}\n"
        "sink: {topic: out}\nevery_seconds: 5\n"
    )
    made = read_pipeline(file)
    assert (list(made.topics), made.every_seconds, made.options) == (["a", "b"], 5, {"minPartitions": "3"})
    assert made.transforms[0].__name__ == "keep"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: p\ntopics: [a]\nsnk: {to: x}", "did you mean sink"),
        ("name: p\ntopics: [a]\nsink: {}", "one of to"),
        ("name: p\nsink: {to: x}", "no topics"),
        ("name: p\ntopics: [a]\nsink: {to: x, partition: d}", "did you mean partition_by"),
        ("name: p\ntopics: [a]\ntransforms: [nothing]\nsink: {to: x}", "module:function"),
        ("name: p\ntopics: [a]\ntransforms: ['json:nothing']\nsink: {to: x}", "is not there"),
        ("name: p/q\ntopics: [a]\nsink: {to: x}", "pipeline's name"),
        ("[1", "no YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_pipeline(file)


def test_a_python_file_must_set_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text("x = 1")
    with pytest.raises(UsageError, match="must set `pipeline`"):
        read_pipeline(file)


def test_a_dry_run_shows_ranges_and_changes_nothing(penstock_broker: Broker, tmp_path: Path) -> None:
    penstock_broker.create_topic("orders", 2)
    produce(penstock_broker, 10)
    table = Pipeline(name="p", topics=["orders"], sink=TableSink(str(tmp_path / "lake")))
    topic = Pipeline(name="p", topics=["orders"], sink=TopicSink("out"))
    for pipeline in (table, topic):
        plan = dry_run(pipeline, bootstrap_servers=penstock_broker.bootstrap_servers)
        assert [(piece.partition, piece.start, piece.end) for piece in plan.ranges] == [(0, 0, 5), (1, 0, 5)]
        assert (plan.tasks, plan.rows_at_most) == (2, 10)
    assert not (tmp_path / "lake").exists()


def test_the_history_keeps_every_run(tmp_path: Path) -> None:
    pipeline = Pipeline(name="a b", topics=["t"], sink=TopicSink("out"))
    history = History(tmp_path, pipeline)
    assert history.read() == []
    runs = [RunSummary("a b", "2026-01-01", 1.5, rows=3), RunSummary("a b", "2026-01-02", 0.1, error="no broker")]
    for one in runs:
        history.add(one)
    assert History(tmp_path, pipeline).read() == runs


def test_a_long_history_keeps_its_last_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.pipelines._LONG_HISTORY_BYTES", 2_000)
    monkeypatch.setattr("penstock.spark.pipelines._RUNS_KEPT", 3)
    history = History(tmp_path, "a load")
    for number in range(100):
        history.add(RunSummary("a load", "2026-01-01", 1.5, rows=number))
    rows = [one.rows for one in history.read()]
    assert 3 <= len(rows) < 20
    assert rows[-1] == 99


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_raw_example_loads_a_delta_table_by_day(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock_broker.create_topic("orders", 2)
    produce(penstock_broker, 100)
    monkeypatch.chdir(tmp_path)
    pipeline = read_pipeline(EXAMPLES / "raw_to_delta.yaml")
    summary = run(pipeline, bootstrap_servers=penstock_broker.bootstrap_servers, folder=tmp_path, spark=spark)
    assert (summary.rows, summary.lag_before, summary.lag_after) == (100, 100, 0)
    assert DeltaTable("penstock-lake/orders").to_pyarrow_table().num_rows == 100
    assert [one.rows for one in History(tmp_path, pipeline).read()] == [100]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_table_may_be_loaded_through_transforms(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("orders", 2)
    pipeline = Pipeline(
        name="sums",
        topics=["orders"],
        transforms=[
            lambda frame: frame.selectExpr("cast(value as string) as order", "timestamp").where("order like '%1}'")
        ],
        sink=TableSink(str(tmp_path / "lake"), partition_by=["date"]),
    )
    for _ in range(2):
        produce(penstock_broker, 100)
        summary = run(pipeline, bootstrap_servers=penstock_broker.bootstrap_servers, folder=tmp_path, spark=spark)
        assert (summary.rows, summary.lag_after) == (10, 0)
    assert DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().num_rows == 20


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_totals_example_is_exactly_once(penstock_broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    penstock_broker.create_topic("orders", 2)
    penstock_broker.create_topic("order-totals", 2)
    pipeline = read_pipeline(EXAMPLES / "totals.py")
    for number in range(2):
        produce(penstock_broker, 50)
        summary = run(pipeline, bootstrap_servers=penstock_broker.bootstrap_servers, folder=tmp_path, spark=spark)
        assert (summary.rows, summary.lag_before, summary.lag_after) == (50, 50, 0)
        lines = read_all(penstock_broker, "order-totals")
        assert sorted(int(str(line["id"])) for line in lines) == sorted([*range(50)] * (number + 1))
    assert run(pipeline, bootstrap_servers=penstock_broker.bootstrap_servers, folder=tmp_path, spark=spark).rows == 0


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_enrich_example_handles_or_buries_every_order(
    penstock_broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("orders", "orders-enriched", "orders-dead"):
        penstock_broker.create_topic(topic, 2)
    produce(penstock_broker, 100)
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        producer.send("orders", '"not an order"')
    address = penstock_broker.bootstrap_servers
    module = (EXAMPLES / "enrich.py").read_text().replace("127.0.0.1:9092", address)
    file = tmp_path / "enrich.py"
    file.write_text(module)
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    summary = run(read_pipeline(file), bootstrap_servers=address, folder=tmp_path, spark=spark)
    assert (summary.rows, summary.lag_after) == (101, 0)
    assert sorted(int(str(order["id"])) for order in read_all(penstock_broker, "orders-enriched")) == [*range(100)]
    assert read_all(penstock_broker, "orders-dead") == ["not an order"]


def test_a_load_with_a_folder_notes_what_it_did_or_why_it_failed(tmp_path: Path) -> None:
    with noted(str(tmp_path), "orders") as note_run:
        note_run(LoadSummary("orders", "lake", rows=10, seconds=2.0, lag_before=10))
    with pytest.raises(ValueError, match="broken"), noted(str(tmp_path), "orders"):
        raise ValueError("broken")
    first, second = History(tmp_path, "orders").read()
    assert (first.rows, first.lag_before, first.lag_after, first.error) == (10, 10, 0, "")
    assert "broken" in second.error
    with noted(None, "orders") as note_run:
        note_run(LoadSummary("orders", "lake"))
