"""Produces orders as JSON: python examples/spark/orders.py [COUNT] [BOOTSTRAP]."""

from __future__ import annotations

import json
import sys

from penstock.client.sync import Producer


def main(count: int, bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            order = {"id": number, "customer": f"c{number % 97}", "amount": number % 50 + 1}
            producer.send("orders", json.dumps(order), key=f"c{number % 97}")
    print(f"{count} orders are in the topic orders")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:9092")
