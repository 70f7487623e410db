"""How many workers a queue needs follows from scrapes of its brokers."""

from __future__ import annotations

import pytest

from penstock.client.queue_advice import UnknownQueue, advise
from penstock.client.scrapes import ByBroker, parse


def scrape(arrived: int, delivered: int, lag: int, held: int, age: float = 0) -> ByBroker:
    return {
        "b": parse(
            f'kafka_server_brokertopicmetrics_messagesin_total{{topic="images"}} {arrived}\n'
            f'kafka_server_brokertopicmetrics_messagesin_total{{topic="others"}} {arrived * 7}\n'
            f'penstock_share_deliveries_total{{group="resize",topic="images"}} {delivered}\n'
            f'penstock_share_deliveries_total{{group="others",topic="images"}} {delivered * 7}\n'
            f'penstock_share_group_lag_records_sum{{group="resize",topic="images"}} {lag}\n'
            f'penstock_share_group_held_records{{group="resize",topic="images"}} {held}\n'
            f'penstock_share_group_lag_age_seconds{{group="resize",topic="images"}} {age}\n'
        )
    }


BEHIND = [(0.0, scrape(1_000, 500, 4_350, 10)), (10.0, scrape(1_400, 750, 4_500, 10, 180))]


def test_the_time_that_a_worker_has_a_record_follows_from_how_many_are_held() -> None:
    advice = advise(BEHIND, "resize", 10)
    assert advice.arrivals_per_second == 40
    assert advice.done_per_second == 25
    assert advice.handling_seconds == 0.4
    assert advice.workers_to_keep_up == 20  # 40/s of 0.4 s are 16 busy workers, busy for 80 % of the time
    assert advice.workers_to_catch_up == 28  # and 15/s more work off 4,500 in five minutes
    assert (advice.lag, advice.oldest_seconds, advice.topics) == (4_500, 180, ["images"])


def test_workers_that_take_many_records_at_once_are_as_fast_as_they_are_while_others_wait() -> None:
    batches = [(0.0, scrape(0, 0, 4_000, 120)), (10.0, scrape(800, 800, 4_000, 120))]
    assert advise(batches, "resize", 2).handling_seconds == 0.025  # and not the 1.5 s that a record waits in its batch
    assert advise(batches, "resize", 2).workers_to_keep_up == 3
    keeping_up = [(0.0, scrape(0, 0, 120, 120)), (10.0, scrape(800, 800, 120, 120))]
    assert advise(keeping_up, "resize", 2).handling_seconds == 1.5


def test_who_knows_the_time_better_says_so() -> None:
    advice = advise(BEHIND, "resize", 10, handling_seconds=0.1, concurrency=2, catch_up_seconds=30)
    assert (advice.workers_to_keep_up, advice.workers_to_catch_up) == (3, 12)


def test_a_queue_that_nobody_works_on_cannot_tell_how_long_a_record_takes() -> None:
    idle = [(0.0, scrape(0, 0, 5, 0)), (10.0, scrape(0, 0, 5, 0))]
    advice = advise(idle, "resize", 0)
    assert advice.workers_to_keep_up is None


def test_a_quiet_queue_needs_one_worker() -> None:
    quiet = [(0.0, scrape(0, 0, 0, 0)), (10.0, scrape(0, 0, 0, 0))]
    assert advise(quiet, "resize", 1, handling_seconds=2.0).workers_to_keep_up == 1


def test_records_arrive_at_all_brokers_of_which_one_shows_the_lag() -> None:
    leader = parse('kafka_server_brokertopicmetrics_messagesin_total{topic="images"} 5\n')
    later = parse('kafka_server_brokertopicmetrics_messagesin_total{topic="images"} 205\n')
    (began, before), (ended, after) = BEHIND
    advice = advise([(began, {**before, "c": leader}), (ended, {**after, "c": later})], "resize", 10)
    assert advice.arrivals_per_second == 60
    assert advice.lag == 4_500
    without = advise([(began, {**before, "c": leader}), (5.0, before), (ended, {**after, "c": later})], "resize", 10)
    assert without.arrivals_per_second == 40  # it did not answer once


def test_a_queue_that_the_broker_does_not_show_is_named() -> None:
    with pytest.raises(UnknownQueue, match="nobody"):
        advise(BEHIND, "nobody", 0)
