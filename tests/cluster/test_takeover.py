"""Any broker of a cluster may die, stop or leave at any moment: everything goes on, and nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka import Producer as Librdkafka
from confluent_kafka.admin import AdminClient

from penstock.client.admin import ScramUpsertion
from penstock.client.sync import Admin, Consumer, Producer, ShareConsumer
from penstock.security.acls import AclBinding
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.config_resources import ResourceType
from penstock.wire.errors import ErrorCode
from tests.broker.process import BrokerProcess
from tests.broker.raw import RawClient
from tests.cluster.members import SECONDS, Members, until
from tests.postgres import PostgresServer

TOPIC = "orders"
PARTITIONS = 6


class Load:
    """An idempotent producer that writes numbers until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Librdkafka(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "socket.timeout.ms": 3000}
        )
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_stopped:
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, callback=self._told)
            self._producer.poll(0.005)
            number += 1
        self._producer.flush(SECONDS)

    def _told(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(int(message.value()))  # type: ignore[attr-defined]

    def until_more(self, count: int) -> None:
        """Until so many more numbers are acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + SECONDS
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {wanted}"
            time.sleep(0.05)

    def stop(self) -> list[int]:
        self._is_stopped = True
        self._thread.join()
        assert self.failed == []
        return self.acknowledged


def every_record(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    """What each partition holds, for who reads what is committed."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        wanted = [(topic, index) for index in range(partitions)]
        ends = consumer.end_offsets(wanted)
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        found: list[list[bytes]] = [[] for _ in wanted]
        deadline = time.monotonic() + SECONDS
        while any(consumer.position(each) < ends[each] for each in ends):
            assert time.monotonic() < deadline
            for record in consumer.poll(500):
                found[record.partition].append(record.value or b"")
        return found


def test_everything_goes_on_when_brokers_die_stop_and_leave(tmp_path: Path, postgres: PostgresServer) -> None:
    with Members(tmp_path, postgres) as members:
        # A broker that is stopped keeps its connections: clients notice by their own timeouts.
        settings = {"bootstrap.servers": members.bootstrap, "request.timeout.ms": 3000}
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS, replication_factor=3)
            admin.create_topic("paid", 3, replication_factor=3)
            admin.alter_configs(ResourceType.GROUP, "queue", {"share.auto.offset.reset": "earliest"})
        load = Load(members.bootstrap)
        load.until_more(50)
        paid: list[bytes] = []
        accepted: set[tuple[int, int]] = set()
        with (
            Producer(settings, transactional_id="t") as producer,
            ShareConsumer(settings, group_id="queue", share_acknowledgement_mode="explicit") as worker,
            Consumer(settings, group_id="g", group_protocol="consumer", auto_offset_reset="earliest") as consumer,
        ):
            worker.subscribe([TOPIC])
            consumer.subscribe([TOPIC])

            def work(count: int) -> None:
                """A transaction, a commit of offsets and some acceptances."""
                with producer.transaction():
                    for _ in range(3):
                        value = b"%d" % len(paid)
                        producer.send("paid", value)
                        paid.append(value)
                deadline, done = time.monotonic() + SECONDS, 0
                while done < count:
                    assert time.monotonic() < deadline
                    taken = worker.take(20, 2000)
                    for record in taken:
                        assert (record.partition, record.offset) not in accepted, "accepted, and delivered again"
                        worker.accept(record)
                        done += 1
                    confirmed = {place for place, error in worker.commit().items() if error is None}
                    accepted.update(
                        (each.partition, each.offset) for each in taken if each.topic_partition in confirmed
                    )
                deadline, done = time.monotonic() + SECONDS, 0
                while done < count:
                    assert time.monotonic() < deadline
                    done += len(consumer.poll(500))
                consumer.commit()

            work(20)
            members.brokers[1].kill()
            members.until_led_by_others(TOPIC, 1)
            work(20)
            load.until_more(50)
            members.brokers[1].start()
            # Longer than the lease: others lead, and what it had under way is nothing.
            members.signal(members.brokers[2], signal.SIGSTOP)
            members.until_led_by_others(TOPIC, 2)
            work(20)
            members.signal(members.brokers[2], signal.SIGCONT)
            load.until_more(50)
            assert members.brokers[3].stop() == 0
            assert 3 not in members.leaders(TOPIC), "it has handed over before it ended"
            work(20)
            load.until_more(50)
        assert len(accepted) >= 40, "of 80 that were delivered: those of a dead broker are not confirmed"
        acknowledged = load.stop()
        found = every_record(members.bootstrap, TOPIC, PARTITIONS)
        assert sorted(int(value) for values in found for value in values) == sorted(acknowledged)
        assert all(values == sorted(values, key=int) for values in found), "out of order"
        found = every_record(members.bootstrap, "paid", 3)
        assert sorted(value for values in found for value in values) == sorted(paid)
        with Consumer(bootstrap_servers=members.bootstrap, group_id="g") as consumer:
            committed = consumer.committed([(TOPIC, index) for index in range(PARTITIONS)])
        assert sum(each.offset for each in committed.values() if each is not None) >= 80


def refused(process: BrokerProcess) -> str:
    done = subprocess.run(process.command(), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_who_cannot_join_is_told_what_to_do(tmp_path: Path, postgres: PostgresServer) -> None:
    with Members(tmp_path, postgres, count=1, lease_ms=60_000) as members:
        assert "ode id 1 is in use by a broker at 127.0.0.1" in refused(members.process(1, "another"))
        other = Members(tmp_path / "other", postgres, count=1)
        stray = members.process(2)
        with other:
            pass
        stray.data = other.folder / "broker-1"
        assert "correct --cluster or --data" in refused(stray)
        alone = members.process(3, "without a store")
        alone.store = None
        assert f"start the broker with --store {members.store}" in refused(alone)
        # Killed, and back before its lease has ended: it is itself again; so is one that has lost its folder.
        members.brokers[1].kill()
        members.brokers[1].start()
        members.brokers[1].kill()
        replaced = members.brokers[1] = members.process(1, "new folder")
        replaced.start()


def test_changes_on_one_broker_are_seen_on_all(tmp_path: Path, postgres: PostgresServer) -> None:
    rule = AclBinding(AclResource.TOPIC, TOPIC, "User:ann", AclOperation.READ)
    allowed: dict[str, Any] = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    with Members(tmp_path, postgres, super_users="User:ANONYMOUS", **allowed) as members, ExitStack() as stack:
        first, *others = (
            stack.enter_context(Admin(bootstrap_servers=broker.address)) for broker in members.brokers.values()
        )

        def seen(look: Callable[[Admin], bool]) -> None:
            """By every other broker itself."""
            for each in others:
                until(lambda each=each: [1] if look(each) else [])  # type: ignore[misc]

        first.create_topic(TOPIC, 3)
        seen(lambda admin: TOPIC in {each.name for each in admin.list_topics()})
        first.alter_configs(ResourceType.TOPIC, TOPIC, {"retention.ms": "12345"})
        seen(lambda admin: admin.describe_configs(ResourceType.TOPIC, TOPIC)["retention.ms"].value == "12345")
        first.create_acls([rule])
        seen(lambda admin: rule in admin.describe_acls())
        first.alter_user_scram_credentials([ScramUpsertion("ann", "secret")])
        seen(lambda admin: "ann" in admin.describe_user_scram_credentials())
        assert all(len(admin.describe_cluster().nodes) == 3 for admin in others)
        first.delete_topic(TOPIC)
        seen(lambda admin: TOPIC not in {each.name for each in admin.list_topics()})


def test_a_broker_that_is_gone_for_good_is_replaced_among_the_replicas(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with Members(tmp_path, postgres, auto_leader_rebalance_enable="false") as members:
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS, replication_factor=2)
        assert members.brokers[3].stop() == 0
        with RawClient(members.brokers[1].port) as client:

            def code(node_id: int) -> int:
                unregister = m.UnregisterBrokerRequest(broker_id=node_id)
                return client.ask(unregister, m.UnregisterBrokerResponse, 0).error_code

            assert code(2) == ErrorCode.INVALID_REQUEST, "it runs"
            assert code(7) == ErrorCode.BROKER_ID_NOT_REGISTERED
            until(lambda: [1] if code(3) == ErrorCode.NONE else [])  # once the broker that is asked has heard of it
        with Admin(bootstrap_servers=members.brokers[2].address) as admin:
            until(lambda: [1] if sorted(_replicas(admin)) == [(1, 2)] * PARTITIONS else [])


def _replicas(admin: Admin) -> list[tuple[int, ...]]:
    return [tuple(sorted(each.replicas)) for each in admin.describe_topic(TOPIC).partitions.values()]


@pytest.mark.long
def test_administrators_move_leaders(tmp_path: Path, postgres: PostgresServer) -> None:
    with Members(tmp_path, postgres, auto_leader_rebalance_enable="false") as members:
        with Admin(bootstrap_servers=members.bootstrap) as admin:
            admin.create_topic(TOPIC, 3, replication_factor=3)
        preferred = until(lambda: leaders if -1 not in (leaders := members.leaders(TOPIC)) else [])
        assert sorted(preferred) == [1, 2, 3]
        members.brokers[1].kill()
        members.until_led_by_others(TOPIC, 1)
        members.brokers[1].start()
        librdkafka = AdminClient({"bootstrap.servers": members.bootstrap})
        elected = librdkafka.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, index) for index in range(3)])
        moved = [each.partition for each, error in elected.result(SECONDS).items() if error is None]
        assert moved == [preferred.index(1)]
        assert until(lambda: found if (found := members.leaders(TOPIC)) == preferred else []) == preferred
        request = m.AlterPartitionReassignmentsRequest
        wanted = request.ReassignablePartition(partition_index=moved[0], replicas=[3, 2])
        with RawClient(members.brokers[2].port) as client:
            requested = request(topics=[request.ReassignableTopic(name=TOPIC, partitions=[wanted])])
            assert client.ask(requested, m.AlterPartitionReassignmentsResponse, 0).error_code == 0
        until(lambda: found if 1 not in (found := members.leaders(TOPIC)) else [])
        with RawClient(members.brokers[2].port) as client:
            listed = client.ask(
                m.ListPartitionReassignmentsRequest(topics=None), m.ListPartitionReassignmentsResponse, 0
            )
            assert listed.topics == [], "nothing is under way any more"
