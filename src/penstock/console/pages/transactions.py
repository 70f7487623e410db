"""Transactions: which are open and for how long, whose holds back readers of committed records, and aborting them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.client.admin import Admin, TransactionDescription
from penstock.console.commands import command
from penstock.console.held_back import held_back
from penstock.console.questions import Change, Form
from penstock.console.web import Page, change, field_of, number_of, page, session_of
from penstock.wire.errors import KafkaError

NAVIGATION = [("/transactions", "Transactions", "x")]
_MOST_IDS = 500
_MOST_OPEN = 200
_AT_ONCE = 16
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_ADDRESS = "/transactions"


async def transactions(request: Request) -> Page:
    session = session_of(request)
    admin = await session.admin()
    every = await admin.list_transactions()
    under_way = [each for each in every if each.state in _OPEN]
    described = await _described(admin, [each.transactional_id for each in under_way[:_MOST_OPEN]])
    now_ms = int(time.time() * 1000)
    rows = [
        {
            "id": each.transactional_id,
            "state": each.state,
            "producer": each.producer_id,
            "epoch": each.producer_epoch,
            "coordinator": each.coordinator,
            "seconds": max(0, now_ms - each.start_time_ms) / 1000 if each.start_time_ms >= 0 else None,
            "timeoutSeconds": each.timeout_ms / 1000,
            "partitions": [str(tp) for tp in each.partitions],
        }
        for each in described
    ]
    rows.sort(key=lambda row: -float(str(row["seconds"] or 0)))
    look = await held_back(session).look({tp for each in described for tp in each.partitions})
    ids = {each.producer_id: each.transactional_id for each in every}
    idle = [each for each in every if each.state not in _OPEN]
    data = {
        "open": rows,
        "held": [
            {
                "topic": each.tp.topic,
                "partition": each.tp.partition,
                "stable": each.stable,
                "end": each.end,
                "producer": each.producer,
                "start": each.start,
                "id": ids.get(each.producer, ""),
            }
            for each in look.held
            if each.producer is not None
        ],
        "idle": [
            {"id": each.transactional_id, "state": each.state, "producer": each.producer_id}
            for each in idle[:_MOST_IDS]
        ],
        "idle_count": len(idle),
        "left_out": max(0, len(under_way) - _MOST_OPEN),
        "hidden": sum(each.producer is None for each in look.held),
        "held_left_out": look.left_out,
        "looked_at": look.seen,
        "partitions": look.total,
    }
    return Page("transactions.html", data, 2.0)


async def _described(admin: Admin, ids: Iterable[str]) -> list[TransactionDescription]:
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(transactional_id: str) -> TransactionDescription | None:
        async with few:
            try:
                return await admin.describe_transaction(transactional_id)
            except KafkaError:
                return None  # it has ended meanwhile

    return [found for found in await asyncio.gather(*(one(each) for each in ids)) if found is not None]


async def abort(request: Request, form: Form) -> Change:
    session = session_of(request)
    admin = await session.admin()
    if "id" in form:
        name = field_of(form, "id", limit=10_000)
        found = await admin.describe_transaction(name)
        if found.state != "Ongoing":
            raise HTTPException(409, f"Transactional id {name} has no open transaction; it is {found.state}.")

        async def fence(_: Form) -> str:
            now = await admin.describe_transaction(name)
            if (now.state, now.start_time_ms) != (found.state, found.start_time_ms):
                raise HTTPException(409, f"The transaction of {name} has ended meanwhile.")
            await admin.fence_producers(name)
            held_back(session).forget()
            return f"The transaction of {name} is aborted, and its producer is fenced."

        question = f"Abort the transaction of {name}, and fence its producer?"
        rows = [(str(tp),) for tp in found.partitions]
        line = command(session, "txn", "abort", name)
        return Change(question, line, _ADDRESS, fence, "Abort it", danger=True, columns=("Writes to",), rows=rows)
    topic, _, numbers = field_of(form, "where", limit=400).partition(":")
    partition_text, _, offset_text = numbers.partition(":")
    partition = number_of(partition_text, "Partition", 0, 2**31 - 1)
    offset = number_of(offset_text, "Start offset")

    async def mark(_: Form) -> str:
        await admin.abort_transaction((topic, partition), offset)
        held_back(session).forget()
        return f"The transaction that began in {topic}-{partition} at offset {offset} is aborted there."

    line = command(session, "txn", "abort", "--topic", topic, "--partition", partition, "--start-offset", offset)
    question = f"Abort the transaction that began in {topic}-{partition} at offset {offset}?"
    return Change(question, line, _ADDRESS, mark, "Abort it", danger=True)


ROUTES = [*page(_ADDRESS, transactions), *change("/transactions/abort", abort)]
