"""Kafka's own command-line tools work against Penstock and read its files."""

from __future__ import annotations

import uuid

import pytest

from bench.peers import Peer, run_java_tool

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
LIST_GROUPS = "org.apache.kafka.tools.GroupsCommand"


def run(class_name: str, *arguments: str, stdin: str = "") -> str:
    """The tool's output; a tool that fails, fails the test with what it said."""
    done = run_java_tool(class_name, *arguments, stdin=stdin)
    assert done.returncode == 0, f"{class_name} {arguments}\n{done.stdout}\n{done.stderr}"
    assert "Exception" not in done.stdout, done.stdout
    return done.stdout


def new_topic(broker: Peer, partitions: int = 1, *configs: str) -> str:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    options = [part for config in configs for part in ("--config", config)]
    run(
        TOPICS,
        "--bootstrap-server",
        broker.bootstrap,
        "--create",
        "--topic",
        name,
        "--partitions",
        str(partitions),
        *options,
    )
    return name


def produce(broker: Peer, topic: str, *lines: str) -> None:
    run(
        CONSOLE_PRODUCER,
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        stdin="".join(f"{x}\n" for x in lines),
    )


def test_kafka_topics_creates_describes_grows_and_deletes(broker: Peer) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    topic = new_topic(broker, 3, "retention.ms=60000")
    assert topic in run(TOPICS, *at, "--list").split()
    described = run(TOPICS, *at, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    assert described.count("Leader: ") == 3
    run(TOPICS, *at, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in run(TOPICS, *at, "--describe", "--topic", topic)
    run(TOPICS, *at, "--delete", "--topic", topic)
    assert topic not in run(TOPICS, *at, "--list").split()


def test_kafka_topics_says_when_a_topic_exists(broker: Peer) -> None:
    topic = new_topic(broker)
    again = run_java_tool(TOPICS, "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic)
    assert again.returncode == 1
    assert "already exists" in again.stdout + again.stderr


def test_kafka_configs_alters_and_describes(broker: Peer) -> None:
    topic = new_topic(broker)
    entity = ("--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", topic)
    run(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=1234,cleanup.policy=[compact,delete]")
    described = run(CONFIGS, *entity, "--describe")
    assert "retention.ms=1234" in described
    assert "cleanup.policy=compact,delete" in described
    run(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in run(CONFIGS, *entity, "--describe")
    assert "segment.bytes=1073741824" in run(CONFIGS, *entity, "--describe", "--all")


def test_kafka_configs_describes_brokers_and_groups(broker: Peer) -> None:
    at = ("--bootstrap-server", broker.bootstrap, "--describe")
    assert "group.initial.rebalance.delay.ms=0" in run(
        CONFIGS, *at, "--entity-type", "brokers", "--entity-name", "1", "--all"
    )
    group = ("--entity-type", "groups", "--entity-name", "some-group")
    run(CONFIGS, *at[:2], "--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    assert "share.auto.offset.reset=earliest" in run(CONFIGS, *at, *group)


def test_the_console_producer_and_consumer_carry_lines(broker: Peer) -> None:
    topic = new_topic(broker)
    produce(broker, topic, "first", "second", "third")
    read = run(
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "3",
    )
    assert read.splitlines() == ["first", "second", "third"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_console_producer_compresses(broker: Peer, codec: str) -> None:
    topic = new_topic(broker)
    at = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    run(CONSOLE_PRODUCER, *at, "--compression-codec", codec, stdin="one\ntwo\n")
    assert run(CONSOLE_CONSUMER, *at, "--from-beginning", "--max-messages", "2").splitlines() == ["one", "two"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_joins_a_group_of_either_protocol(broker: Peer, protocol: str) -> None:
    topic = new_topic(broker, 2)
    produce(broker, topic, *[str(n) for n in range(10)])
    group = f"{topic}-{protocol}"
    at = ("--bootstrap-server", broker.bootstrap)
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10")
    read = run(CONSOLE_CONSUMER, *at, *options, "--command-property", f"group.protocol={protocol}")
    assert sorted(read.split()) == [str(n) for n in range(10)]
    described = run(GROUPS, *at, "--describe", "--group", group)
    lines = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sum(int(line[3]) for line in lines) == 10
    assert {line[5] for line in lines} == {"0"}, "everything is consumed, so there is no lag"


def test_kafka_consumer_groups_lists_resets_and_deletes(broker: Peer) -> None:
    topic = new_topic(broker)
    produce(broker, topic, "a", "b", "c")
    at = ("--bootstrap-server", broker.bootstrap)
    group = ("--group", f"{topic}-resets")
    run(CONSOLE_CONSUMER, *at, "--topic", topic, *group, "--from-beginning", "--max-messages", "3")
    assert group[1] in run(GROUPS, *at, "--list").split()
    assert "Empty" in run(GROUPS, *at, "--describe", *group, "--state")
    dry = run(GROUPS, *at, *group, "--reset-offsets", "--to-earliest", "--topic", topic, "--dry-run")
    assert dry.split()[-1] == "0"
    run(GROUPS, *at, *group, "--reset-offsets", "--to-offset", "1", "--topic", topic, "--execute")
    described = next(x for x in run(GROUPS, *at, "--describe", *group).splitlines() if x.startswith(group[1]))
    assert described.split()[3:6] == ["1", "3", "2"]
    run(GROUPS, *at, "--delete-offsets", *group, "--topic", topic)
    run(GROUPS, *at, "--delete", *group)
    assert group[1] not in run(GROUPS, *at, "--list").split()


def test_kafka_get_offsets_and_delete_records_agree(broker: Peer, tmp_path: object) -> None:
    topic = new_topic(broker)
    produce(broker, topic, *"abcde")
    at = ("--bootstrap-server", broker.bootstrap)
    assert run(GET_OFFSETS, *at, "--topic", topic).split() == [f"{topic}:0:5"]
    assert run(GET_OFFSETS, *at, "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:0"]
    assert run(GET_OFFSETS, *at, "--topic", topic, "--time", "max-timestamp").startswith(f"{topic}:0:")
    wish = f"{tmp_path}/records.json"
    with open(wish, "w") as file:
        file.write(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 3}}], "version": 1}}')
    assert "low_watermark: 3" in run(DELETE_RECORDS, *at, "--offset-json-file", wish)
    assert run(GET_OFFSETS, *at, "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:3"]


def test_the_perf_tools_produce_and_consume_what_they_were_told(broker: Peer) -> None:
    topic = new_topic(broker)
    load = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    said = run(
        PRODUCER_PERFORMANCE, "--topic", topic, *load, "--producer-props", f"bootstrap.servers={broker.bootstrap}"
    )
    assert "20000 records sent" in said
    counted = run(
        CONSUMER_PERFORMANCE, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "20000"
    )
    assert int(counted.splitlines()[-1].split(",")[4]) >= 20_000


def test_kafka_dump_log_reads_the_segment_files(broker: Peer) -> None:
    topic = new_topic(broker)
    produce(broker, topic, "one", "two", "three")
    folder = next(broker.folder.rglob(f"{topic}-0"))
    files = [str(folder / f"{0:020}{suffix}") for suffix in (".log", ".index", ".timeindex")]
    dumped = run(DUMP_LOG, "--deep-iteration", "--print-data-log", "--files", ",".join(files))
    assert "payload: one" in dumped
    assert "payload: three" in dumped
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped
    assert "Found timestamp mismatch" not in dumped
    assert "offset mismatch" not in dumped


def test_kafka_dump_log_decodes_the_offsets_topic(broker: Peer) -> None:
    topic = new_topic(broker)
    produce(broker, topic, "a", "b")
    options = ("--topic", topic, "--group", f"{topic}-dumped", "--from-beginning", "--max-messages", "2")
    run(CONSOLE_CONSUMER, "--bootstrap-server", broker.bootstrap, *options)
    logs = [str(path) for path in broker.folder.rglob("__consumer_offsets-*/*.log") if path.stat().st_size]
    dumped = run(DUMP_LOG, "--offsets-decoder", "--files", ",".join(logs))
    assert f'"group":"{topic}-dumped","topic":"{topic}","partition":0' in dumped
    assert "error" not in dumped.lower()


def test_the_share_tools_read_a_queue_and_show_its_group(broker: Peer) -> None:
    topic = new_topic(broker)
    at = ("--bootstrap-server", broker.bootstrap)
    group = f"{topic}-share"
    reset = ("--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest")
    run(CONFIGS, *at, "--alter", *reset)
    produce(broker, topic, "job-1", "job-2", "job-3")
    read = run(CONSOLE_SHARE_CONSUMER, *at, "--topic", topic, "--group", group, "--max-messages", "3")
    assert sorted(read.split()) == ["job-1", "job-2", "job-3"]
    assert group in run(SHARE_GROUPS, *at, "--list").split()
    described = run(SHARE_GROUPS, *at, "--describe", "--group", group)
    assert next(line for line in described.splitlines() if line.startswith(group)).split()[1] == topic
    assert "Share" in next(line for line in run(LIST_GROUPS, *at, "--list").splitlines() if line.startswith(group))
    logs = [str(path) for path in broker.folder.rglob("__share_group_state-*/*.log") if path.stat().st_size]
    assert f'"groupId":"{group}"' in run(DUMP_LOG, "--share-group-state-decoder", "--files", ",".join(logs))


def test_the_other_admin_tools_get_their_answers(broker: Peer) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    topic = new_topic(broker)
    assert f'"partition":"{topic}-0"' in run(LOG_DIRS, *at, "--describe", "--topic-list", topic)
    assert "Produce(0): 0 to 13" in run(API_VERSIONS, *at)
    assert "Cluster ID: " in run(CLUSTER, "cluster-id", *at)
    assert "TransactionalId" in run(TRANSACTIONS, *at, "list")
