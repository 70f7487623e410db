"""The lake: both topics into Delta tables with Spark, and a question asked with SQL."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from examples.demo.stage import Results, check, console
from examples.demo.stream import RECORDS, amount_of
from examples.demo.stream import TOPIC as ORDERS
from examples.demo.transform import EXPECTED, LARGE
from examples.demo.transform import TOPIC as LEDGER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITTED = {"kafka.isolation.level": "read_committed"}


def is_there() -> bool:
    return all(find_spec(name) is not None for name in ("pyspark", "deltalake", "pyarrow"))


def run(address: str, folder: Path, results: Results) -> None:
    from penstock.spark import load, session

    started = time.perf_counter()
    spark = session("penstock demo", "local[2]", spark_driver_memory="1g")
    results.add("start Spark", None, time.perf_counter() - started, f"version {spark.version}")
    try:
        orders, ledger = folder / "orders", folder / "ledger"
        loaded = load(ORDERS, str(orders), bootstrap_servers=address, spark=spark)
        check(loaded.rows == RECORDS, f"{RECORDS} orders were produced, {loaded.rows} rows loaded")
        found = f"{loaded.files} files, {loaded.bytes / 1e6:,.0f} MB, lag {loaded.lag_after}"
        results.add("load orders into Delta", loaded.rows, loaded.seconds, found)
        again = load(ORDERS, str(orders), bootstrap_servers=address, spark=spark)
        check(again.rows == 0, f"a second load took {again.rows} rows again")
        booked = load(
            LEDGER,
            str(ledger),
            bootstrap_servers=address,
            parse="json",
            schema="order_id bigint, customer string, amount bigint",
            options=COMMITTED,
            spark=spark,
        )
        check(booked.rows == EXPECTED, f"{EXPECTED} lines are committed, {booked.rows} rows loaded")
        results.add("load ledger into Delta", booked.rows, booked.seconds, "committed lines only")
        ask(spark, orders, ledger, results)
    finally:
        spark.stop()


def ask(spark: SparkSession, orders: Path, ledger: Path, results: Results) -> None:
    started = time.perf_counter()
    frame(spark, orders).createOrReplaceTempView("orders")
    frame(spark, ledger).createOrReplaceTempView("ledger")
    [counts] = spark.sql("SELECT count(*) AS rows, count(DISTINCT partition, offset) AS places FROM orders").collect()
    check(counts.rows == counts.places == RECORDS, f"the table has {counts.rows} rows of {counts.places} records")
    [total] = spark.sql("SELECT sum(amount) AS amount, count(DISTINCT order_id) AS orders FROM ledger").collect()
    booked = sum(amount_of(number) for number in range(RECORDS) if amount_of(number) >= LARGE)
    check((total.amount, total.orders) == (booked, EXPECTED), f"the ledger adds up to {total.amount}, not {booked}")
    query = "SELECT customer, count(*) AS orders, sum(amount) AS amount FROM ledger GROUP BY 1 ORDER BY 3 DESC LIMIT 3"
    best = spark.sql(query).collect()
    seconds = time.perf_counter() - started
    results.add("ask with SQL", RECORDS + EXPECTED, seconds, f"rows = records; the ledger adds up to {booked:,}")
    table = Table("customer", "large orders", "amount", title=query)
    for row in best:
        table.add_row(row.customer, str(row.orders), f"{row.amount:,}")
    console.print(table)


def frame(spark: SparkSession, path: Path) -> DataFrame:
    """The present version of a Delta table, read by Spark itself."""
    from deltalake import DeltaTable

    return spark.read.parquet(*DeltaTable(str(path)).file_uris())
