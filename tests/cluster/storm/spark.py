"""`python -m tests.cluster.storm.spark SERVERS FOLDER`: Spark copies the stream of a storm into a topic, exactly once.

It goes on until it is killed; its checkpoint in the folder says where the next one continues.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

SOURCE, COPIES = "stream", "spark-copies"
PARTITIONS = 3


def is_installed() -> bool:
    """Whether this environment has Spark, as `make spark` installs it."""
    return find_spec("pyspark") is not None


def main() -> None:
    from penstock.spark.session import session

    servers, folder = sys.argv[1:]
    spark = session("storm", "local[1]", config={"spark.driver.memory": "768m", "spark.driver.host": "127.0.0.1"})
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", servers)
    rows = reader.option("subscribe", SOURCE).option("startingOffsets", "earliest").load().select("value", "partition")
    writer = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", servers).option("topic", COPIES)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(processingTime="1 second").start().awaitTermination()


if __name__ == "__main__":
    main()
