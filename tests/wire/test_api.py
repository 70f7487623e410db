from __future__ import annotations

import pytest
from kio.index import load_entity_module
from kio.static.constants import EntityType

from penstock.wire import schema
from penstock.wire.api import API_TABLE, ApiKey, request_header_version, response_header_version

# What an Apache Kafka 4.3.1 broker answers to ApiVersions: key, name, lowest and highest version.
ADVERTISED = """
0 Produce 0 13; 1 Fetch 4 18; 2 ListOffsets 1 11; 3 Metadata 0 13; 8 OffsetCommit 2 10; 9 OffsetFetch 1 10;
10 FindCoordinator 0 6; 11 JoinGroup 0 9; 12 Heartbeat 0 4; 13 LeaveGroup 0 5; 14 SyncGroup 0 5;
15 DescribeGroups 0 6; 16 ListGroups 0 5; 17 SaslHandshake 0 1; 18 ApiVersions 0 4; 19 CreateTopics 2 7;
20 DeleteTopics 1 6; 21 DeleteRecords 0 2; 22 InitProducerId 0 5; 23 OffsetForLeaderEpoch 2 4;
24 AddPartitionsToTxn 0 5; 25 AddOffsetsToTxn 0 4; 26 EndTxn 0 5; 27 WriteTxnMarkers 1 2; 28 TxnOffsetCommit 0 5;
29 DescribeAcls 1 3; 30 CreateAcls 1 3; 31 DeleteAcls 1 3; 32 DescribeConfigs 1 4; 33 AlterConfigs 0 2;
34 AlterReplicaLogDirs 1 2; 35 DescribeLogDirs 1 5; 36 SaslAuthenticate 0 2; 37 CreatePartitions 0 3;
38 CreateDelegationToken 1 3; 39 RenewDelegationToken 1 2; 40 ExpireDelegationToken 1 2;
41 DescribeDelegationToken 1 3; 42 DeleteGroups 0 2; 43 ElectLeaders 0 2; 44 IncrementalAlterConfigs 0 1;
45 AlterPartitionReassignments 0 1; 46 ListPartitionReassignments 0 0; 47 OffsetDelete 0 0;
48 DescribeClientQuotas 0 1; 49 AlterClientQuotas 0 1; 50 DescribeUserScramCredentials 0 0;
51 AlterUserScramCredentials 0 0; 55 DescribeQuorum 0 2; 57 UpdateFeatures 0 2; 60 DescribeCluster 0 2;
61 DescribeProducers 0 0; 64 UnregisterBroker 0 0; 65 DescribeTransactions 0 0; 66 ListTransactions 0 2;
68 ConsumerGroupHeartbeat 0 1; 69 ConsumerGroupDescribe 0 1; 71 GetTelemetrySubscriptions 0 0;
72 PushTelemetry 0 0; 74 ListConfigResources 0 1;
75 DescribeTopicPartitions 0 0; 76 ShareGroupHeartbeat 1 1; 77 ShareGroupDescribe 1 1; 78 ShareFetch 1 2;
79 ShareAcknowledge 1 2; 80 AddRaftVoter 0 1; 81 RemoveRaftVoter 0 0; 83 InitializeShareGroupState 0 0;
84 ReadShareGroupState 0 0; 85 WriteShareGroupState 0 1; 86 DeleteShareGroupState 0 0;
87 ReadShareGroupStateSummary 0 1; 88 StreamsGroupHeartbeat 0 0; 89 StreamsGroupDescribe 0 0;
90 DescribeShareGroupOffsets 0 1; 91 AlterShareGroupOffsets 0 0; 92 DeleteShareGroupOffsets 0 0
"""


def test_the_table_is_what_kafka_advertises() -> None:
    expected = [line.split() for line in ADVERTISED.split(";")]
    actual = [[str(i.key.value), i.name, str(i.min_version), str(i.max_version)] for i in API_TABLE.values()]
    assert actual == expected


def test_every_key_has_a_name_in_the_enum_and_a_row_in_the_table() -> None:
    assert {key.value for key in ApiKey} == set(API_TABLE)
    for key in ApiKey:
        assert schema.snake_case(API_TABLE[key].name).upper() == key.name


@pytest.mark.parametrize("info", API_TABLE.values(), ids=lambda info: str(info.name))
def test_header_versions_agree_with_kio(info: object) -> None:
    assert isinstance(info, tuple)
    api = API_TABLE[info[0]]
    lowest = api.request.SCHEMA.versions.low
    for version in range(lowest, api.max_version + 1):
        for kind, suffix, ours in (
            (EntityType.request, "Request", request_header_version),
            (EntityType.response, "Response", response_header_version),
        ):
            module = load_entity_module(schema.snake_case(api.name), version, kind)  # type: ignore[arg-type]
            header = getattr(module, api.name + suffix).__header_schema__
            assert header.__version__ == ours(api.key, version)


def test_schemas_hold_every_advertised_version() -> None:
    for info in API_TABLE.values():
        for cls in (info.request, info.response):
            assert info.max_version <= cls.SCHEMA.versions.high
            # Kafka says Produce 0 to satisfy old librdkafka; nothing below 3 can be read.
            assert cls.SCHEMA.versions.low == (3 if info.name == "Produce" else info.min_version)


def test_flexible_versions_of_body_and_header_agree() -> None:
    for info in API_TABLE.values():
        for cls in (info.request, info.response):
            flexible = cls.SCHEMA.flexible
            for version in range(cls.SCHEMA.versions.low, info.max_version + 1):
                assert (version in flexible) == (version >= info.first_flexible), (info.name, version)
