"""The example for Spark Declarative Pipelines, run by Spark's own command, twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.client.sync import Producer
from penstock.spark.java import find_java_home
from penstock.testing.broker import Broker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("grpc_status") is None, reason="needs pip install 'pyspark[pipelines]'"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "declarative"


def produce(broker: Broker, amounts: range) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for amount in amounts:
            producer.send("orders", json.dumps({"customer": f"c{amount % 3}", "amount": amount}))


def run_pipeline(folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--spec", "spark-pipeline.yml"]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [*command, "--remote", "local[2]", "--conf", "spark.sql.catalogImplementation=hive"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def table(folder: Path, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(folder / "spark-warehouse" / name).to_pylist()
    return rows


def test_a_second_run_takes_only_what_is_new(penstock_broker: Broker, tmp_path: Path) -> None:
    penstock_broker.create_topic("orders", 2)
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.iterdir():
        text = path.read_text().replace("127.0.0.1:9092", penstock_broker.bootstrap_servers)
        path.write_text(text.replace("file:///tmp/penstock-declarative", (tmp_path / "storage").as_uri()))
    for made in (40, 60):
        produce(penstock_broker, range(made - 20 if made > 40 else 0, made))
        run_pipeline(folder)
        places = [(row["partition"], row["offset"]) for row in table(folder, "raw_orders")]
        assert (len(places), len(set(places))) == (made, made)
        sums = {row["customer"]: row["amount"] for row in table(folder, "amounts")}
        assert sums == {f"c{rest}": sum(range(rest, made, 3)) for rest in range(3)}
