"""Fraud checks off the checkout path.

A check takes 50 ms; a customer should not wait for it. The checkout writes the order to a topic and answers; a share
group of checkers works behind it, many checks at a time on one partition. A checker that fails, here the model server
drops every thirtieth request, gives the order back, and another takes it: no order goes unchecked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import time

from stage import arguments, broker, prepare

from penstock.client import ConsumerRecord, Producer, ShareConsumer

CHECK_SECONDS = 0.05


class ModelServer:
    def __init__(self) -> None:
        self.requests = 0

    async def looks_wrong(self, order: dict[str, int]) -> bool:
        self.requests += 1
        if self.requests % 30 == 0:
            raise ConnectionError("the model server dropped the request")
        await asyncio.sleep(CHECK_SECONDS)
        return order["cents"] > 90_000 and order["items"] == 1


async def checkout(bootstrap: str, orders: int) -> list[float]:
    """Take orders and answer each as soon as it is stored; returns how long each customer waited, in ms."""
    waits = []
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(orders):
            order = {"order": number, "cents": number * 317 % 100_000, "items": number % 5 + 1}
            started = time.perf_counter()
            await producer.send_and_wait("orders", json.dumps(order))
            waits.append((time.perf_counter() - started) * 1000)
    return waits


async def main() -> None:
    options = arguments(__doc__ or "", orders=300, checkers=2)
    logging.getLogger("penstock.client").setLevel(logging.CRITICAL)  # a dropped request is no news here
    model = ModelServer()
    checked: set[int] = set()
    flagged: set[int] = set()
    finished = asyncio.Event()

    async def check(bootstrap: str) -> None:
        async with ShareConsumer(bootstrap_servers=bootstrap, group_id="fraud", max_poll_records=50) as checker:

            async def examine(record: ConsumerRecord[bytes, bytes]) -> None:
                order = json.loads(record.value or b"{}")
                if await model.looks_wrong(order):
                    flagged.add(order["order"])
                checked.add(order["order"])
                if len(checked) >= options.orders:
                    finished.set()

            checker.subscribe("orders")
            await checker.run(examine, concurrency=50, stop=finished)

    async with broker(options.bootstrap) as bootstrap:
        await prepare(bootstrap, "fraud", "orders")
        crew = [asyncio.create_task(check(bootstrap)) for _ in range(options.checkers)]
        started = time.perf_counter()
        waits = await checkout(bootstrap, options.orders)
        await asyncio.gather(*crew)
        seconds = time.perf_counter() - started
    in_line = options.orders * CHECK_SECONDS
    print(f"{len(checked)} orders checked, {len(flagged)} flagged, {model.requests - len(checked)} checks repeated")
    print(f"  customers waited {statistics.median(waits):.1f} ms (median); checking in line would add 50 ms to each")
    print(f"  all checks were done after {seconds:.1f} s; one after the other they take {in_line:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
