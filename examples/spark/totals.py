"""Consume, transform, produce: each order becomes one line of accounting, exactly once.

The output and the offsets of the input are committed together, so a run that dies is simply run again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json, struct, to_json

from penstock.spark.pipelines import Pipeline, TopicSink


def to_accounting(orders: DataFrame) -> DataFrame:
    order = from_json(col("value").cast("string"), "id BIGINT, customer STRING, amount BIGINT").alias("order")
    parsed = orders.select("key", order).select("key", "order.*").where("amount > 0")
    line = struct(col("id"), col("customer"), (col("amount") * 119 / 100).alias("gross"))
    return parsed.select("key", to_json(line).alias("value"))


pipeline = Pipeline(
    name="order totals",
    topics=["orders"],
    transforms=[to_accounting],
    sink=TopicSink("order-totals"),
)
