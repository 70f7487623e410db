"""Seeds that found something: what it was is fixed, and stays fixed."""

from __future__ import annotations

from tests.simulation.faults import Fault
from tests.simulation.scenario import run
from tests.simulation.scenarios import SCENARIOS


def test_a_batch_does_not_overtake_one_that_found_no_connection() -> None:
    """`penstock.client`: the first batch of an idempotent producer waited for a connection that could not be opened,
    the second one got the next connection, and the broker, which did not know the producer yet, took it first.
    """
    plan = [Fault(125, "half-open", 385, 0), Fault(1537, "slow-network", 282, 0), Fault(2795, "pause", 1188, 0)]
    outcome = run(SCENARIOS["streams"], 8, plan)
    assert not outcome.findings, outcome.story()


def test_locks_of_a_queue_do_not_end_when_the_clock_is_set_forward() -> None:
    """The deadlines of acquisition locks were times of the wall clock: one record had two holders."""
    plan = [Fault(1330, "clock-jump", 622, 60_000), Fault(2088, "clock-jump", 421, 60_000)]
    outcome = run(SCENARIOS["queues-flushed"], 20, plan)
    assert not outcome.findings, outcome.story()


def test_a_new_queue_does_not_wait_for_a_clock_that_was_set_forward() -> None:
    """The answer that its state is there was timed by the wall clock, and heartbeats waited until groups got there."""
    plan = [Fault(47, "slow-network", 696, 0), Fault(322, "clock-jump", 1223, 87_299)]
    outcome = run(SCENARIOS["queues-flushed"], 100114, plan)
    assert not outcome.findings, outcome.story()


def test_a_member_that_died_is_expelled_although_the_clock_is_set_back() -> None:
    """The sessions of members were counted with the wall clock: a dead one kept its partitions for long."""
    plan = [Fault(1011, "kill-client", 714, 0), Fault(2402, "clock-jump", 1288, -80_000)]
    for seed in range(220, 230):
        outcome = run(SCENARIOS["queues"], seed, plan)
        assert not outcome.findings, outcome.story()


def test_an_earlier_commit_that_is_tried_again_does_not_overwrite_a_later_one() -> None:
    plan = [Fault(366, "half-open", 1489, 0), Fault(1360, "half-open", 587, 0), Fault(4117, "kill", 1433, 0)]
    outcome = run(SCENARIOS["groups-848"], 78, plan)
    assert not outcome.findings, outcome.story()


def test_a_copier_that_was_expelled_does_not_commit_what_it_had_polled() -> None:
    """`penstock.client`: after its session had run out in a pause, it committed offsets in nobody's name."""
    plan = [Fault(207, "cut", 693, 0), Fault(1045, "pause-client", 1062, 0), Fault(1316, "pause-client", 801, 0)]
    outcome = run(SCENARIOS["exactly-once"], 9, plan)
    assert not outcome.findings, outcome.story()


def test_markers_that_are_written_again_do_not_end_the_next_transaction() -> None:
    """The beginning of a classic transaction waited for the disk, but not for the completion that had come meanwhile.

    A power cut took the completion, the markers were written again, and committed offsets of the next transaction.
    """
    outcome = run(SCENARIOS["exactly-once"], 572, [Fault(925, "power-cut", 645, 0)])
    assert not outcome.findings, outcome.story()


def test_a_member_that_was_expelled_does_not_commit_into_an_empty_group() -> None:
    """`penstock.client`: members of a paused broker were expelled, and one committed an earlier offset as nobody."""
    plan = [Fault(5322, "pause-client", 1326, -83024), Fault(6499, "pause", 882, -11003)]
    outcome = run(SCENARIOS["groups"], 376, plan)
    assert not outcome.findings, outcome.story()


def test_a_poll_ends_in_time_although_its_member_has_to_join_once_more() -> None:
    """`penstock.client`: poll went round and round, without waiting, while a join was under way and another was due."""
    plan = [Fault(2355, "slow-disk", 980, -5567), Fault(2468, "pause-client", 768, -85232)]
    outcome = run(SCENARIOS["groups"], 483, plan)
    assert not outcome.findings, outcome.story()


def test_a_reader_may_commit_what_a_power_cut_took_back_before_it_finds_out() -> None:
    """The checker: a consumer had fetched a record that was lost, committed it, and then went back to the log's end."""
    plan = [
        Fault(1806, "pause", 878, 0),
        Fault(3382, "slow-disk", 951, 0),
        Fault(4859, "cut", 738, 0),
        Fault(6005, "power-cut", 921, 0),
    ]
    outcome = run(SCENARIOS["groups-848"], 75, plan)
    assert not outcome.findings, outcome.story()
    outcome = run(SCENARIOS["groups-848"], 398)
    assert not outcome.findings, outcome.story()


def test_a_commit_that_is_tried_again_leaves_alone_what_was_given_up_meanwhile() -> None:
    """`penstock.client`: with its new epoch a member committed a partition that another one had read on in."""
    outcome = run(SCENARIOS["static-members"], 517, [Fault(7148, "kill-client", 1392, 0)])
    assert not outcome.findings, outcome.story()


def test_a_commit_in_the_background_is_not_sent_when_the_poll_after_it_has_learned_of_the_expulsion() -> None:
    """`penstock.client`: whether the consumer had been expelled was looked up when the task ran, after the poll."""
    plan = [
        Fault(387, "clean-stop", 273, -10143),
        Fault(2884, "clean-stop", 381, -74856),
        Fault(5265, "pause-client", 1436, 64846),
        Fault(5515, "partition", 581, -44848),
    ]
    outcome = run(SCENARIOS["groups-848"], 100071, plan)
    assert not outcome.findings, outcome.story()


def test_a_member_tells_that_it_has_not_taken_over_what_was_taken_back_meanwhile() -> None:
    """`penstock.client`: it had what it had had before, so it reported nothing; the coordinator waited for it, and the
    partition stayed with nobody.
    """
    outcome = run(SCENARIOS["static-members"], 400003)
    assert not outcome.findings, outcome.story()


def test_a_static_member_that_is_killed_again_before_it_returned_is_away_since_the_first_time() -> None:
    """The history: each kill began its time anew, and the session that ran out meanwhile seemed to be cut short."""
    plan = [
        Fault(581, "kill", 818, 0),
        Fault(3655, "kill-client", 1024, 1),
        Fault(3819, "kill-client", 698, 0),
        Fault(4070, "kill-client", 1413, 1),
    ]
    for chosen in (plan, None):
        outcome = run(SCENARIOS["static-members"], 340, chosen)
        assert not outcome.findings, outcome.story()


def test_who_acknowledges_too_late_does_not_end_what_another_has_ended_and_is_not_told_of_yet() -> None:
    """The history: below the start offset every acknowledgement is confirmed and ignored, as Kafka does. The late one
    was answered first, and seemed to have ended a record that its holder had accepted before.
    """
    for name, seed in (("queues", 494), ("queues-flushed", 474)):
        outcome = run(SCENARIOS[name], seed)
        assert not outcome.findings, outcome.story()


def test_a_member_that_left_while_the_disk_was_full_does_not_stay_for_ever() -> None:
    """Its session had ended, and that could not be written: nobody looked after it again, and it kept its partition."""
    for seed in (11, 31):
        outcome = run(SCENARIOS["files-queues"], seed)
        assert not outcome.findings, outcome.story()


def test_delivery_counts_that_a_full_disk_refused_are_stored_before_the_window_is_forgotten() -> None:
    """Locks ran out while their end could not be written. When the last member left, the window was forgotten with
    the counts that it alone knew, and the next member was delivered records for the first time again.
    """
    plan = [Fault(1325, "slow-network", 1268, 0), Fault(1378, "disk-full", 1243, 0)]
    outcome = run(SCENARIOS["files-queues"], 11, plan)
    assert not outcome.findings, outcome.story()


def test_a_coordinator_whose_log_could_not_be_read_at_first_is_loaded_later() -> None:
    outcome = run(SCENARIOS["files-queues"], 45)
    assert not outcome.findings, outcome.story()


def test_a_queue_whose_beginning_could_not_be_noted_does_not_begin_again_under_its_workers() -> None:
    """The state of a share-partition had begun, and the full disk refused to note that in the group: the next join
    began it once more, and what had been accepted meanwhile came again.
    """
    outcome = run(SCENARIOS["files-queues"], 70, [Fault(80, "kill", 1302, 0), Fault(1302, "disk-full", 252, 0)])
    assert not outcome.findings, outcome.story()


def test_a_queue_is_not_served_before_it_is_stored_that_its_log_lost_records() -> None:
    """A power cut took a record that workers had been delivered, and the full disk refused to note after the restart
    that the queue goes back: the next record with that offset counted as done.
    """
    outcome = run(SCENARIOS["files-queues"], 107)
    assert not outcome.findings, outcome.story()


def test_bytes_that_two_segments_hold_between_them_are_removed() -> None:
    """What one commit had stored of records before and behind the beginning of a segment was named for ever."""
    for seed in (1, 4):
        outcome = run(SCENARIOS["cluster-streams"], seed)
        assert not outcome.findings, outcome.story()


def test_a_fetch_of_two_cold_partitions_is_answered_although_the_cache_holds_one() -> None:
    """Each was fetched, which displaced the other, again and again: the reader was never answered."""
    for seed in (4, 7):
        outcome = run(SCENARIOS["cluster-exactly-once"], seed, [Fault(1091, "kill", 724, -47944)])
        assert not outcome.findings, outcome.story()


def test_a_log_that_is_given_up_while_it_is_loaded_does_not_meet_its_successor_in_one_folder() -> None:
    """A broker that restarted after another led a partition for a moment: it was resigned in the middle of its
    take-over, which failed with an error, or could go on in the folder of the next take-over.
    """
    for seed in (28, 34):
        outcome = run(SCENARIOS["cluster-exactly-once"], seed)
        assert not outcome.findings, outcome.story()


def test_a_window_that_was_thrown_away_is_not_written_over_the_next_one() -> None:
    """The keeper of a queue's state stood still for longer than its lease. When it refused the writes that had waited
    for it, the window they came from was gone, and was written once more as a whole: over what the next one had stored.
    """
    outcome = run(SCENARIOS["cluster-queues"], 22, [Fault(1240, "zombie", 266, -54322)])
    assert not outcome.findings, outcome.story()


def test_a_config_is_not_taken_back_by_a_broker_that_had_not_heard_of_it() -> None:
    """A broker wrote all configs of a topic as it knew them. One that had stood still for a moment, and then changed
    another config of the topic, wrote back what the first had been before.
    """
    outcome = run(SCENARIOS["cluster-configs"], 300000, [Fault(4031, "pause", 467, 0)])
    assert not outcome.findings, outcome.story()


def test_a_lease_that_is_over_when_the_catalog_answers_is_noticed_before_the_administrator_is_answered() -> None:
    """A change waited for the database for longer than the lease, and nobody looked at the lease before the answer."""
    for name in ("cluster-configs", "cluster-acls"):
        outcome = run(SCENARIOS[name], 9, [Fault(1316, "part-from-catalog", 813, -2543)])
        assert not outcome.findings, outcome.story()


def test_records_that_were_taken_before_a_broken_batch_are_given_out() -> None:
    """`penstock.client`: poll raised that a batch was broken, and what it had taken of others was passed over."""
    outcome = run(SCENARIOS["files-rot"], 0, [])
    assert not outcome.findings, outcome.story()


def test_what_was_dropped_by_a_failed_sync_is_written_once_more_by_the_next_broker() -> None:
    """A sync failed, the broker stopped, and the next one recovered from the page cache what the kernel had dropped: it
    was taken for synced, and a power cut much later left a hole before records that had been acknowledged.
    """
    plan = [Fault(120, "sync-fails", 1114, 0), Fault(1983, "power-cut-stalled", 17, 0)]
    outcome = run(SCENARIOS["files-compacted"], 38, plan)
    assert not outcome.findings, outcome.story()


def test_a_write_with_acks_1_is_not_promised_to_survive_the_power_cut_after_a_failed_sync() -> None:
    """The scenario: it did not know that a failed sync may end with the machine being started anew."""
    outcome = run(SCENARIOS["files-trimmed"], 5020, [Fault(1036, "sync-fails", 573, 0)])
    assert not outcome.findings, outcome.story()


def test_a_producer_is_known_after_a_crash_although_its_records_were_deleted() -> None:
    """It repeated a batch that was written, and deleted, before it had heard of it: it was appended once more."""
    plan = [Fault(320, "power-cut-stalled", 47, 0), Fault(1450, "power-cut-stalled", 462, 0)]
    outcome = run(SCENARIOS["files-trimmed"], 1, plan)
    assert not outcome.findings, outcome.story()


def test_what_a_broker_gives_out_while_it_stops_need_not_have_been_delivered() -> None:
    """The history: it takes everything back at once, and its answers come in an order of their own."""
    outcome = run(SCENARIOS["files-queues-trimmed"], 2, [Fault(168, "clean-stop", 892, 0)])
    assert not outcome.findings, outcome.story()


def test_what_is_over_is_not_confirmed_again_before_that_is_stored() -> None:
    """A lock ran out for the last time, and the broker that keeps the state never heard of it. The late acceptance was
    confirmed at once, as everything below the start offset is, and the next window delivered the record again.
    """
    plan = [Fault(4616, "half-open", 1099, 47386), Fault(5390, "power-cut", 810, 26403)]
    outcome = run(SCENARIOS["cluster-queues-delayed"], 6, plan)
    assert not outcome.findings, outcome.story()


def test_an_acknowledgement_of_what_the_log_has_dropped_is_confirmed_when_the_window_has_stored_that() -> None:
    """The window followed the log, whose new start was not on disk: a power cut brought the record back."""
    outcome = run(SCENARIOS["files-queues-trimmed"], 9)
    assert not outcome.findings, outcome.story()


def test_a_window_that_has_followed_retention_does_not_go_back_with_its_log() -> None:
    """The history: retention dropped records, which is confirmed to nobody, and the window passed them. That was on
    disk when the power was cut, and the deletion was not; the clock was set back, so that retention kept them then.
    """
    plan = [
        Fault(242, "slow-network", 425, 69788),
        Fault(1165, "pause-client", 431, -62937),
        Fault(1167, "power-cut-stalled", 713, -85),
        Fault(1601, "clock-jump", 552, -51649),
    ]
    for chosen in (plan, None):
        outcome = run(SCENARIOS["files-queues-trimmed"], 400112, chosen)
        assert not outcome.findings, outcome.story()


def test_queues_of_a_cluster_are_judged_by_when_things_were_sent() -> None:
    """The history: an answer waited for the broker that keeps the state, and came after that of the next delivery; and
    a release, whose answer was lost, seemed to belong to the window that was loaded after it.
    """
    plan = [Fault(1405, "part-brokers", 529, 0), Fault(4118, "pause-client", 274, 0)]
    for seed, chosen in ((89, None), (89, plan), (102, None)):
        outcome = run(SCENARIOS["cluster-queues-delayed"], seed, chosen)
        assert not outcome.findings, outcome.story()


def test_times_of_one_clock_are_compared_without_tolerance() -> None:
    """The history: two deliveries of a window that was loaded 2 ms before seemed to be of it or of the one before."""
    outcome = run(SCENARIOS["cluster-queues-dead-letters"], 107)
    assert not outcome.findings, outcome.story()


def test_a_renewal_of_what_is_over_holds_nothing() -> None:
    """The history: it is confirmed and ignored, and seemed to hold the record."""
    outcome = run(SCENARIOS["cluster-queues-read-committed"], 41)
    assert not outcome.findings, outcome.story()


def test_the_last_worker_waits_until_a_broker_finds_out_that_another_was_replaced() -> None:
    """The scenario: the first read of a queue's state went through a connection to the machine before."""
    outcome = run(SCENARIOS["cluster-queues"], 94)
    assert not outcome.findings, outcome.story()


def test_all_faults_of_a_cluster_end() -> None:
    """The world: the database stayed slow after two faults that overlapped, and a broker that was drained while it had
    no lease was waited for without end.
    """
    for seed in (76, 86):
        outcome = run(SCENARIOS["cluster-queues-delayed"], seed)
        assert not outcome.findings, outcome.story()


def test_what_was_acquired_for_an_answer_that_may_not_be_given_any_more_was_delivered() -> None:
    """The history: a broker whose lease was over closed the connection instead of answering. The records of the answer
    had been counted, as they are in Kafka where a connection breaks, and nobody had seen them.
    """
    plan = [Fault(1662, "part-from-catalog", 1478, -59514), Fault(2900, "catalog-away", 334, -719)]
    outcome = run(SCENARIOS["cluster-queues"], 57, plan)
    assert not outcome.findings, outcome.story()


def test_what_was_acquired_for_an_answer_that_a_broker_owed_when_it_died_was_delivered() -> None:
    """The history: the answer waited for the broker that keeps the state, the locks ran out, and that was stored with
    the delivery counts before the power was cut. And where the client's machine had gone before, nobody was left who
    could end their connection: the acknowledgements in that request were forgotten.
    """
    plan = [Fault(427, "catalog-slow", 858, 0), Fault(2777, "power-cut", 192, 0)]
    for chosen in (plan, None):
        outcome = run(SCENARIOS["cluster-queues-read-committed"], 400103, chosen)
        assert not outcome.findings, outcome.story()


def test_a_compaction_is_given_up_with_the_log_that_another_broker_has_come_to_lead() -> None:
    """The cleaner went on, and failed to put a segment into a folder that was gone."""
    moved = [Fault(919, "rolling-restart", 293, 50796)]
    for name, seed, plan in (("cluster-compacted", 1, None), ("cluster-transactions", 300002, moved)):
        outcome = run(SCENARIOS[name], seed, plan)
        assert not outcome.findings, outcome.story()


def test_what_compaction_has_merged_before_it_was_stored_leaves_the_commit_log_and_the_store() -> None:
    """A compacted segment took the place of segments, and not of the extents that it was made from as well."""
    outcome = run(SCENARIOS["cluster-compacted"], 52, [Fault(964, "part-from-catalog", 349, 67127)])
    assert not outcome.findings, outcome.story()


def test_an_upload_that_was_given_up_is_removed_although_nothing_else_happens() -> None:
    """Whoever had doomed it looked for something to do only minutes later."""
    outcome = run(SCENARIOS["cluster-compacted"], 55)
    assert not outcome.findings, outcome.story()


def test_a_read_that_waits_for_indexes_of_a_log_that_is_given_up_is_no_failure() -> None:
    """A thread wrote the indexes into a folder that was gone, and the connection was closed with an error."""
    plan = [Fault(500 + 13_000 * number, "coordinator-cut-off", 700, number) for number in range(3)]
    for seed in (22, 34):
        outcome = run(SCENARIOS["cluster-late-markers"], seed, plan)
        assert not outcome.findings, outcome.story()
