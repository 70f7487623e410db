"""How many workers a queue needs, from scrapes of the brokers' metrics over a while.

By Little's law, the mean time that a worker holds a record is the mean number of records held divided by the rate at
which they are delivered, so it follows from the brokers' metrics although brokers see no handlers. Workers that take
more records than they handle at once make it look longer. While records wait that nobody holds, all workers are busy,
and their number divided by the rate is the time in any case. A caller that knows the time better can state it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.scrapes import Between, ByBroker, series

_LAG = "penstock_share_group_lag_records_sum"
_AGE = "penstock_share_group_lag_age_seconds"
_HELD = "penstock_share_group_held_records"
_DELIVERIES = "penstock_share_deliveries_total"
_IN = "kafka_server_brokertopicmetrics_messagesin_total"
_BUSY = 0.8  # a worker that is busier than this makes records wait for no good reason


class UnknownQueue(LookupError):
    """No broker that was scraped shows a queue of this share group."""


@dataclass(frozen=True, slots=True)
class Advice:
    """How many workers a queue needs, and what that follows from."""

    group: str
    topics: list[str]
    workers: int
    lag: int
    oldest_seconds: float
    arrivals_per_second: float
    done_per_second: float
    handling_seconds: float | None
    """The mean time that a worker has a record; None if it is not known."""
    workers_to_keep_up: int | None
    workers_to_catch_up: int | None
    catch_up_seconds: float


def advise(
    scrapes: Sequence[tuple[float, ByBroker]],
    group: str,
    workers: int,
    *,
    handling_seconds: float | None = None,
    concurrency: int = 1,
    catch_up_seconds: float = 300.0,
) -> Advice:
    """What two or more scrapes of all brokers, each with its time, say about a queue.

    A broker that did not answer each time is left out: its records would seem to come and go.
    """
    answered = set.intersection(*(set(brokers) for _, brokers in scrapes))
    scrapes = [(moment, {each: brokers[each] for each in answered}) for moment, brokers in scrapes]
    (began, before), (ended, after) = scrapes[0], scrapes[-1]
    between = Between(before, after, ended - began)
    topics = sorted({labels["topic"] for labels, _ in series(after, _LAG) if labels["group"] == group})
    if not topics:
        raise UnknownQueue(group)
    arrivals = sum(rate for (topic,), rate in between.rates(_IN, "topic").items() if topic in topics)
    delivered = sum(rate for (owner,), rate in between.rates(_DELIVERIES, "group").items() if owner == group)
    lag_before, lag = (_total(samples, _LAG, group) for samples in (before, after))
    held = sum(_total(samples, _HELD, group) for _, samples in scrapes) / len(scrapes)
    if handling_seconds is None and delivered > 0:
        handling_seconds = held / delivered
        if workers and all(_total(each, _LAG, group) > _total(each, _HELD, group) for _, each in scrapes):
            handling_seconds = min(handling_seconds, workers * concurrency / delivered)
    throughputs = [arrivals, arrivals + lag / catch_up_seconds]
    needed: list[int | None] = [None, None]
    if handling_seconds is not None:
        needed = [max(1, math.ceil(rate * handling_seconds / concurrency / _BUSY - 1e-9)) for rate in throughputs]
    return Advice(
        group=group,
        topics=topics,
        workers=workers,
        lag=int(lag),
        oldest_seconds=max((value for labels, value in series(after, _AGE) if labels["group"] == group), default=0.0),
        arrivals_per_second=arrivals,
        done_per_second=max(0.0, arrivals - (lag - lag_before) / between.seconds),
        handling_seconds=handling_seconds,
        workers_to_keep_up=needed[0],
        workers_to_catch_up=needed[1],
        catch_up_seconds=catch_up_seconds,
    )


def _total(brokers: ByBroker, name: str, group: str) -> float:
    return sum(value for labels, value in series(brokers, name) if labels["group"] == group)
