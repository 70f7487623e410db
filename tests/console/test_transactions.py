"""The page of transactions, against a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.client.producer import Producer
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor, run


def test_an_open_transaction_is_shown_with_what_it_holds_back_and_is_aborted(
    console: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)

    async def main() -> Any:
        async with Producer(broker.client_settings(), transactional_id=fresh) as producer:
            producer.begin_transaction()
            await producer.send(fresh, b"x")
            await producer.flush()
            shown = await asyncio.to_thread(lambda: console.get("/transactions.json").json())
            asked = await asyncio.to_thread(lambda: console.submit("/transactions/abort", consent=False, id=fresh).text)
            done = await asyncio.to_thread(lambda: console.submit("/transactions/abort", id=fresh).text)
            again = await asyncio.to_thread(lambda: console.submit("/transactions/abort", id=fresh).status_code)
            return shown, asked, done, again

    shown, asked, done, again = run(main())
    (row,) = [row for row in shown["open"] if row["id"] == fresh]
    assert (row["state"], row["partitions"]) == ("Ongoing", [f"{fresh}-0"])
    (held,) = [row for row in shown["held"] if row["topic"] == fresh]
    assert (held["stable"], held["end"], held["id"], held["start"]) == (0, 1, fresh, 0)
    assert f"penstock txn abort {fresh} --bootstrap {broker.bootstrap_servers}" in asked
    assert f"The transaction of {fresh} is aborted" in done
    assert again == 409
    after = console.get("/transactions.json").json()
    assert fresh not in [row["id"] for row in after["open"]]
    assert fresh not in [row["topic"] for row in after["held"]]


def test_a_hanging_transaction_is_aborted_by_its_place(console: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)

    async def main() -> str:
        async with Producer(broker.client_settings(), transactional_id=fresh) as producer:
            producer.begin_transaction()
            await producer.send(fresh, b"x")
            await producer.flush()
            where = f"{fresh}:0:0"
            asked = await asyncio.to_thread(
                lambda: console.submit("/transactions/abort", consent=False, where=where).text
            )
            assert f"penstock txn abort --topic {fresh} --partition 0 --start-offset 0" in asked
            return await asyncio.to_thread(lambda: str(console.submit("/transactions/abort", where=where).text))

    assert f"began in {fresh}-0 at offset 0 is aborted" in run(main())
    assert console.submit("/transactions/abort", where=f"{fresh}:x:0").status_code == 400
