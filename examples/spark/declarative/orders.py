"""A streaming table of raw orders, and a view over it. Needs `pip install 'pyspark[pipelines]'`."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.functions import sum as total


@dp.table
def raw_orders() -> DataFrame:
    spark = SparkSession.active()
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    return reader.option("subscribe", "orders").option("startingOffsets", "earliest").load()


@dp.materialized_view
def amounts() -> DataFrame:
    order = from_json(col("value").cast("string"), "customer STRING, amount BIGINT").alias("order")
    orders = SparkSession.active().read.table("raw_orders").select(order)
    # Not `.sum("order.amount")`: it looks at the columns, which a definition may not.
    return orders.groupBy("order.customer").agg(total("order.amount").alias("amount"))
