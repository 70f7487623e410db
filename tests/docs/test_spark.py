"""docs/how-to/spark.md and spark-queues.md, run on a real Spark as they stand (but for ports, folders and masters)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.client.sync import Producer
from penstock.testing import Broker
from tests.docs.blocks import ROOT, Blocks, carries_out
from tests.docs.reader import Reader, follow
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SESSIONS = ("from penstock.spark import session\n", "import os\nimport sys\n")
WRITING, LOADS, QUEUES, PIPELINES, SECURE = "Writing", "Loads", "Queues", "Pipelines", "TLS and SASL"
DECLARATIVE = "cd examples/spark/declarative"
RECORDS = 30

ROWS = """\
from penstock.spark import session

spark = session("writing", "local[2]")
source = spark.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092")
rows = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
"""
UNTIL_DONE = """
for query in spark.streams.active:
    query.processAllAvailable()
    query.stop()
"""


class Engineer(Reader):
    """Somebody with a broker, and a topic of orders and one of images."""

    endless = ("penstock load orders --to lake/plain", "penstock pipeline run orders.yaml --master")

    def __init__(self, folder: Path, broker: Broker) -> None:
        super().__init__(folder)
        self.port = broker.port
        self.environment |= {"PENSTOCK_BOOTSTRAP": broker.bootstrap_servers, "PYSPARK_PYTHON": sys.executable}
        fill(broker)

    def wait_for(self, started: subprocess.Popen[str], command: str) -> str:
        """Until it says what it has loaded."""
        return self.read_until(started, started.stderr, f"{RECORDS} rows")


def fill(broker: Broker, user: str | None = None) -> None:
    with Producer(broker.client_settings(user)) as producer:
        for number in range(RECORDS):
            producer.send("orders", f'{{"id": {number}, "amount": 3}}')
            producer.send("images", b"pixels" if number else None)


@pytest.fixture
def engineer(penstock_broker: Broker, tmp_path: Path) -> Iterator[Engineer]:
    reader = Engineer(tmp_path, penstock_broker)
    yield reader
    reader.close()


@carries_out("how-to/spark.md", *SESSIONS, each=True)
def test_a_session_reads_a_topic_though_another_python_is_on_the_path(
    engineer: Engineer, blocks: Blocks, tmp_path: Path
) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = f"{tmp_path}/other/bin:/usr/bin:/bin"
    (block,) = blocks
    done = subprocess.run(
        [sys.executable, "-c", engineer.place(block.text)],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "30" in done.stdout
    blocks.done.append(block)


@carries_out("how-to/spark.md", WRITING)
def test_rows_are_written_to_a_topic(engineer: Engineer, blocks: Blocks) -> None:
    (block,) = blocks
    follow(engineer, f"```python\n{ROWS}{block.text}{UNTIL_DONE}```\n")
    blocks.done.append(block)
    written = engineer.run("penstock consume totals --from beginning --exit-at-end --committed | wc -l")
    assert int(written) == RECORDS


@carries_out("how-to/spark.md", LOADS)
def test_topics_are_loaded(engineer: Engineer, blocks: Blocks, postgres: PostgresServer) -> None:
    engineer.run(f"{postgres.program('psql')} {postgres.url()} -qc 'CREATE DATABASE shop'")
    engineer.places = {
        "postgresql://localhost/shop": postgres.url(database="shop"),
        'partition_by="date")': 'partition_by="date", bootstrap_servers="127.0.0.1:9092")',
        '> 1000")])': f'> {RECORDS + 5}")], bootstrap_servers="127.0.0.1:9092")',
    }
    follow(engineer, blocks)
    counted = engineer.run(
        f"{postgres.program('psql')} {postgres.url(database='shop')} -Atc 'SELECT count(*) FROM orders'"
    )
    assert int(counted) == RECORDS
    assert {path.name for path in (engineer.folder / "lake").iterdir()} >= {"orders", "parsed", "plain", "amounts"}


@carries_out("how-to/spark.md", QUEUES)
def test_a_queue_is_worked_on_by_spark(engineer: Engineer, blocks: Blocks) -> None:
    (engineer.folder / "handlers.py").write_text("def resize(record):\n    assert record.topic == 'images'\n")
    engineer.run("penstock share create resize images --from beginning")
    follow(engineer, blocks)
    assert engineer.run("penstock share offsets resize").split()[-1] == "0"


@carries_out("how-to/spark.md", PIPELINES, skip=[DECLARATIVE])
def test_a_pipeline_is_run_on_a_cluster(engineer: Engineer, blocks: Blocks, tmp_path: Path) -> None:
    from tests.spark.cluster import Standalone

    (tmp_path / "spark").mkdir()
    cluster = Standalone(tmp_path / "spark")
    try:
        cluster.start()
        engineer.places = {"spark://host:7077": cluster.url}
        follow(engineer, blocks)
    finally:
        cluster.stop()
    assert str(RECORDS) in engineer.printed


@pytest.mark.skipif(find_spec("grpc_status") is None, reason="needs pip install 'pyspark[pipelines]'")
@carries_out("how-to/spark.md", DECLARATIVE)
def test_a_declarative_pipeline_is_run_by_sparks_own_command(engineer: Engineer, blocks: Blocks) -> None:
    from penstock.spark.java import find_java_home

    folder = engineer.folder / "examples/spark/declarative"
    shutil.copytree(ROOT / "examples/spark/declarative", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.iterdir():
        text = engineer.place(path.read_text("utf-8"))
        path.write_text(text.replace("file:///tmp/penstock-declarative", (engineer.folder / "storage").as_uri()))
    engineer.environment |= {"JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    engineer.environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    follow(engineer, blocks)
    assert (folder / "spark-warehouse" / "raw_orders").is_dir()


@carries_out("how-to/spark.md", SECURE)
def test_a_secured_topic_is_read_and_loaded(blocks: Blocks, tmp_path: Path) -> None:
    with Broker(tls=True, users={"lake": "secret"}) as broker:
        fill(broker, "lake")
        reader = Reader(tmp_path)
        reader.environment["LAKE_PASSWORD"] = "secret"
        reader.places = {"broker.example:9093": broker.bootstrap_servers, "/etc/penstock/ca.pem": broker.ca_file}
        (block,) = blocks
        beginning = "import os\nfrom penstock.spark import load, session\nspark = session('secure', 'local[2]')\n"
        follow(reader, f"```python\n{beginning}{block.text}print('rows', frame.count())\n```\n")
        blocks.done.append(block)
        assert f"rows {RECORDS}" in reader.printed


@carries_out("how-to/spark-queues.md", "`work`: a function for every record")
def test_a_function_is_called_for_every_record(engineer: Engineer, blocks: Blocks) -> None:
    engineer.run("penstock share create resize images --from beginning")
    follow(engineer, blocks)
    assert f"{RECORDS - 1} accepted" in engineer.printed


@carries_out("how-to/spark-queues.md", "A share group as a stream")
def test_a_share_group_is_a_stream(engineer: Engineer, blocks: Blocks) -> None:
    engineer.run("seq 5 | penstock produce answers")
    (block,) = blocks
    beginning = "from penstock.spark import session\nspark = session('queue', 'local[2]')\n"
    end = "query = jobs.writeStream.format('parquet').option('path', 'out').option('checkpointLocation', 'check')\n"
    end += "query.trigger(availableNow=True).start().awaitTermination()\n"
    end += "print('rows', spark.read.parquet('out').count())\n"
    follow(engineer, f"```python\n{beginning}{block.text}{end}```\n")
    blocks.done.append(block)
    assert "rows 5" in engineer.printed
