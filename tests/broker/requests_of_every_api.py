"""A well-formed request of every API, naming things that a full broker has and an empty one has not."""

from __future__ import annotations

from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.config_resources import ResourceType
from tests.broker.guarded import produce_request

TOPIC, GROUP, SHARE_GROUP, TRANSACTIONAL_ID, USER = "orders", "billing", "workers", "payments", "carol"
MEMBER = "0Yg5sC9YRHyoMLy0b1xYhQ"
PATTERNS = 1
"""ANY, of whatever."""

Sent = tuple[m.Message, int]
"""A request and its version."""


def every_request(topic_id: bytes, producer_id: int) -> dict[ApiKey, list[Sent]]:
    return {
        **_producing_and_consuming(topic_id),
        **_groups(topic_id),
        **_share_state(topic_id),
        **_transactions(producer_id),
        **_topics_and_configs(),
        **_cluster(),
        **_security(),
    }


def _producing_and_consuming(topic_id: bytes) -> dict[ApiKey, list[Sent]]:
    fetch = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            m.FetchRequest.FetchTopic(
                topic=TOPIC,
                partitions=[m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
        ],
    )
    listed = m.ListOffsetsRequest.ListOffsetsTopic(
        name=TOPIC, partitions=[m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    epoch = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=TOPIC,
        partitions=[
            m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
        ],
    )
    deleted = m.DeleteRecordsRequest.DeleteRecordsTopic(
        name=TOPIC, partitions=[m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)]
    )
    share_topic = m.ShareFetchRequest.FetchTopic(
        topic_id=topic_id, partitions=[m.ShareFetchRequest.FetchPartition(partition_index=0)]
    )
    share_acknowledged = m.ShareAcknowledgeRequest.AcknowledgeTopic(
        topic_id=topic_id, partitions=[m.ShareAcknowledgeRequest.AcknowledgePartition(partition_index=0)]
    )
    return {
        ApiKey.PRODUCE: [(produce_request(TOPIC), 12)],
        ApiKey.FETCH: [(fetch, 12)],
        ApiKey.LIST_OFFSETS: [(m.ListOffsetsRequest(replica_id=-1, topics=[listed]), 8)],
        ApiKey.OFFSET_FOR_LEADER_EPOCH: [(m.OffsetForLeaderEpochRequest(replica_id=-2, topics=[epoch]), 4)],
        ApiKey.DELETE_RECORDS: [(m.DeleteRecordsRequest(topics=[deleted], timeout_ms=1000), 2)],
        ApiKey.SHARE_FETCH: [
            (
                m.ShareFetchRequest(
                    group_id=SHARE_GROUP, member_id=MEMBER, max_bytes=1 << 20, max_records=10, topics=[share_topic]
                ),
                2,
            )
        ],
        ApiKey.SHARE_ACKNOWLEDGE: [
            (
                m.ShareAcknowledgeRequest(
                    group_id=SHARE_GROUP, member_id=MEMBER, share_session_epoch=1, topics=[share_acknowledged]
                ),
                2,
            )
        ],
    }


def _groups(topic_id: bytes) -> dict[ApiKey, list[Sent]]:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    commit = m.OffsetCommitRequest.OffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[m.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
    )
    named = m.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    fetched = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[named])
    everything = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    deleted = m.OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
    )
    described = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=SHARE_GROUP, topics=None
    )
    altered = m.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
        topic_name=TOPIC,
        partitions=[
            m.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
        ],
    )
    forgotten = m.DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
    return {
        ApiKey.FIND_COORDINATOR: [
            *(
                (m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
                for kind, key in enumerate((GROUP, TRANSACTIONAL_ID, f"{SHARE_GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"))
            ),
            (m.FindCoordinatorRequest(key=GROUP), 3),
        ],
        ApiKey.JOIN_GROUP: [
            (
                m.JoinGroupRequest(
                    group_id=GROUP,
                    session_timeout_ms=6000,
                    rebalance_timeout_ms=6000,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
                9,
            )
        ],
        ApiKey.SYNC_GROUP: [
            (m.SyncGroupRequest(group_id=GROUP, member_id="m", protocol_type="consumer", protocol_name="range"), 5)
        ],
        ApiKey.HEARTBEAT: [(m.HeartbeatRequest(group_id=GROUP, member_id="m"), 4)],
        ApiKey.LEAVE_GROUP: [
            (
                m.LeaveGroupRequest(group_id=GROUP, members=[m.LeaveGroupRequest.MemberIdentity(member_id="m")]),
                5,
            )
        ],
        ApiKey.DESCRIBE_GROUPS: [(m.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True), 6)],
        ApiKey.LIST_GROUPS: [(m.ListGroupsRequest(), 5)],
        ApiKey.DELETE_GROUPS: [(m.DeleteGroupsRequest(groups_names=[GROUP]), 2)],
        ApiKey.CONSUMER_GROUP_HEARTBEAT: [
            (
                m.ConsumerGroupHeartbeatRequest(
                    group_id="fresh",
                    member_id=MEMBER,
                    member_epoch=0,
                    rebalance_timeout_ms=6000,
                    subscribed_topic_names=[TOPIC],
                    topic_partitions=[],
                ),
                1,
            )
        ],
        ApiKey.CONSUMER_GROUP_DESCRIBE: [(m.ConsumerGroupDescribeRequest(group_ids=["modern"]), 1)],
        ApiKey.SHARE_GROUP_HEARTBEAT: [
            (
                m.ShareGroupHeartbeatRequest(
                    group_id="fresh-workers", member_id=MEMBER, member_epoch=0, subscribed_topic_names=[TOPIC]
                ),
                1,
            )
        ],
        ApiKey.SHARE_GROUP_DESCRIBE: [(m.ShareGroupDescribeRequest(group_ids=[SHARE_GROUP]), 1)],
        ApiKey.STREAMS_GROUP_HEARTBEAT: [(m.StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=MEMBER), 0)],
        ApiKey.STREAMS_GROUP_DESCRIBE: [(m.StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)],
        ApiKey.OFFSET_COMMIT: [
            (m.OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, topics=[commit]), 9)
        ],
        ApiKey.OFFSET_FETCH: [
            (m.OffsetFetchRequest(groups=[fetched]), 9),
            (m.OffsetFetchRequest(groups=[everything]), 9),
        ],
        ApiKey.OFFSET_DELETE: [(m.OffsetDeleteRequest(group_id=GROUP, topics=[deleted]), 0)],
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: [(m.DescribeShareGroupOffsetsRequest(groups=[described]), 1)],
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: [
            (m.AlterShareGroupOffsetsRequest(group_id=SHARE_GROUP, topics=[altered]), 0)
        ],
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: [
            (m.DeleteShareGroupOffsetsRequest(group_id=SHARE_GROUP, topics=[forgotten]), 0)
        ],
    }


def _share_state(topic_id: bytes) -> dict[ApiKey, list[Sent]]:
    initialize, read, write = (
        m.InitializeShareGroupStateRequest,
        m.ReadShareGroupStateRequest,
        m.WriteShareGroupStateRequest,
    )
    delete, summary = m.DeleteShareGroupStateRequest, m.ReadShareGroupStateSummaryRequest
    return {
        ApiKey.INITIALIZE_SHARE_GROUP_STATE: [
            (
                initialize(
                    SHARE_GROUP,
                    [initialize.InitializeStateData(topic_id, [initialize.PartitionData(0, 9, 0)])],
                ),
                0,
            )
        ],
        ApiKey.READ_SHARE_GROUP_STATE: [
            (read(SHARE_GROUP, [read.ReadStateData(topic_id, [read.PartitionData(0, 0)])]), 0)
        ],
        ApiKey.WRITE_SHARE_GROUP_STATE: [
            (write(SHARE_GROUP, [write.WriteStateData(topic_id, [write.PartitionData(0, 1, 0, 1)])]), 0)
        ],
        ApiKey.DELETE_SHARE_GROUP_STATE: [
            (delete(SHARE_GROUP, [delete.DeleteStateData(topic_id, [delete.PartitionData(0)])]), 0)
        ],
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: [
            (summary(SHARE_GROUP, [summary.ReadStateSummaryData(topic_id, [summary.PartitionData(0, 0)])]), 0)
        ],
    }


def _transactions(producer_id: int) -> dict[ApiKey, list[Sent]]:
    added = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    transaction = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTIONAL_ID, producer_id=producer_id, topics=[added]
    )
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        topics=[m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
    )
    committed = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
    )
    return {
        ApiKey.INIT_PRODUCER_ID: [
            (m.InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=600_000), 5),
            (m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=600_000), 5),
        ],
        ApiKey.ADD_PARTITIONS_TO_TXN: [
            (
                m.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=TRANSACTIONAL_ID,
                    v3_and_below_producer_id=producer_id,
                    v3_and_below_topics=[added],
                ),
                3,
            ),
            (m.AddPartitionsToTxnRequest(transactions=[transaction]), 5),
        ],
        ApiKey.ADD_OFFSETS_TO_TXN: [
            (
                m.AddOffsetsToTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=producer_id, group_id=GROUP),
                4,
            )
        ],
        ApiKey.END_TXN: [(m.EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=producer_id), 4)],
        ApiKey.WRITE_TXN_MARKERS: [(m.WriteTxnMarkersRequest(markers=[marker]), 1)],
        ApiKey.TXN_OFFSET_COMMIT: [
            (
                m.TxnOffsetCommitRequest(
                    transactional_id=TRANSACTIONAL_ID, group_id=GROUP, producer_id=producer_id, topics=[committed]
                ),
                4,
            )
        ],
        ApiKey.DESCRIBE_TRANSACTIONS: [(m.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), 0)],
        ApiKey.LIST_TRANSACTIONS: [(m.ListTransactionsRequest(), 1)],
        ApiKey.DESCRIBE_PRODUCERS: [
            (
                m.DescribeProducersRequest(
                    topics=[m.DescribeProducersRequest.TopicRequest(name=TOPIC, partition_indexes=[0])]
                ),
                0,
            )
        ],
    }


def _topics_and_configs() -> dict[ApiKey, list[Sent]]:
    new = m.CreateTopicsRequest.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    old = m.CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    named = m.MetadataRequest.MetadataRequestTopic(name=TOPIC)
    created = m.MetadataRequest.MetadataRequestTopic(name="created")
    resources = [
        (ResourceType.TOPIC, TOPIC, "retention.ms"),
        (ResourceType.BROKER, "", "log.cleaner.threads"),
        (ResourceType.GROUP, GROUP, "share.session.timeout.ms"),
        (ResourceType.CLIENT_METRICS, "metrics", "interval.ms"),
    ]
    describe, alter, incremental = m.DescribeConfigsRequest, m.AlterConfigsRequest, m.IncrementalAlterConfigsRequest
    return {
        ApiKey.METADATA: [
            (m.MetadataRequest(topics=[named, created], allow_auto_topic_creation=True), 9),
            (
                m.MetadataRequest(
                    topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
                ),
                10,
            ),
            (m.MetadataRequest(topics=None), 13),
        ],
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: [
            (
                m.DescribeTopicPartitionsRequest(topics=[m.DescribeTopicPartitionsRequest.TopicRequest(name=TOPIC)]),
                0,
            ),
            (m.DescribeTopicPartitionsRequest(), 0),
        ],
        ApiKey.CREATE_TOPICS: [(m.CreateTopicsRequest(topics=[new, old], timeout_ms=1000), 7)],
        ApiKey.DELETE_TOPICS: [
            (m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name=TOPIC)], timeout_ms=1000), 6)
        ],
        ApiKey.CREATE_PARTITIONS: [
            (
                m.CreatePartitionsRequest(
                    topics=[m.CreatePartitionsRequest.CreatePartitionsTopic(name=TOPIC, count=9, assignments=None)]
                ),
                3,
            )
        ],
        ApiKey.DESCRIBE_CONFIGS: [
            (
                describe(
                    resources=[
                        describe.DescribeConfigsResource(
                            resource_type=kind, resource_name=name, configuration_keys=None
                        )
                        for kind, name, _ in resources
                    ]
                ),
                4,
            )
        ],
        ApiKey.ALTER_CONFIGS: [
            (
                alter(
                    resources=[
                        alter.AlterConfigsResource(
                            resource_type=kind,
                            resource_name=name,
                            configs=[alter.AlterableConfig(name=config, value="60000")],
                        )
                        for kind, name, config in resources
                    ]
                ),
                2,
            )
        ],
        ApiKey.INCREMENTAL_ALTER_CONFIGS: [
            (
                incremental(
                    resources=[
                        incremental.AlterConfigsResource(
                            resource_type=kind,
                            resource_name=name,
                            configs=[incremental.AlterableConfig(name=config, value="60001")],
                        )
                        for kind, name, config in resources
                    ]
                ),
                1,
            )
        ],
        ApiKey.LIST_CONFIG_RESOURCES: [(m.ListConfigResourcesRequest(), 1)],
    }


def _cluster() -> dict[ApiKey, list[Sent]]:
    elected = m.ElectLeadersRequest.TopicPartitions(topic=TOPIC, partitions=[0])
    moved = m.AlterPartitionReassignmentsRequest.ReassignableTopic(
        name=TOPIC, partitions=[m.AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0)]
    )
    folder = m.AlterReplicaLogDirsRequest.AlterReplicaLogDir(
        path="/elsewhere", topics=[m.AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])]
    )
    feature = m.UpdateFeaturesRequest.FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    quorum = m.DescribeQuorumRequest.TopicData(
        topic_name="__cluster_metadata", partitions=[m.DescribeQuorumRequest.PartitionData(partition_index=0)]
    )
    return {
        ApiKey.DESCRIBE_CLUSTER: [(m.DescribeClusterRequest(include_cluster_authorized_operations=True), 1)],
        ApiKey.DESCRIBE_LOG_DIRS: [(m.DescribeLogDirsRequest(topics=None), 4)],
        ApiKey.ALTER_REPLICA_LOG_DIRS: [(m.AlterReplicaLogDirsRequest(dirs=[folder]), 2)],
        ApiKey.ELECT_LEADERS: [
            (m.ElectLeadersRequest(topic_partitions=[elected], timeout_ms=1000), 2),
            (m.ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 2),
        ],
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: [(m.AlterPartitionReassignmentsRequest(topics=[moved]), 0)],
        ApiKey.LIST_PARTITION_REASSIGNMENTS: [(m.ListPartitionReassignmentsRequest(topics=None), 0)],
        ApiKey.DESCRIBE_QUORUM: [(m.DescribeQuorumRequest(topics=[quorum]), 2)],
        ApiKey.UPDATE_FEATURES: [(m.UpdateFeaturesRequest(feature_updates=[feature], timeout_ms=1000), 1)],
        ApiKey.UNREGISTER_BROKER: [(m.UnregisterBrokerRequest(broker_id=7), 0)],
        ApiKey.ADD_RAFT_VOTER: [(m.AddRaftVoterRequest(voter_id=2), 0)],
        ApiKey.REMOVE_RAFT_VOTER: [(m.RemoveRaftVoterRequest(voter_id=2), 0)],
    }


def _security() -> dict[ApiKey, list[Sent]]:
    creation = m.CreateAclsRequest.AclCreation(2, "*", 3, "User:mallory", "*", 2, 3)
    everything = m.DeleteAclsRequest.DeleteAclsFilter(PATTERNS, None, PATTERNS, None, None, PATTERNS, PATTERNS)
    quota = m.AlterClientQuotasRequest.EntryData(
        entity=[m.AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=USER)],
        ops=[m.AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0)],
    )
    user = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="mallory", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    removed = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=USER, mechanism=1)
    return {
        ApiKey.DESCRIBE_ACLS: [(m.DescribeAclsRequest(PATTERNS, None, PATTERNS, None, None, PATTERNS, PATTERNS), 3)],
        ApiKey.CREATE_ACLS: [(m.CreateAclsRequest(creations=[creation]), 3)],
        ApiKey.DELETE_ACLS: [(m.DeleteAclsRequest(filters=[everything]), 3)],
        ApiKey.CREATE_DELEGATION_TOKEN: [(m.CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)],
        ApiKey.RENEW_DELEGATION_TOKEN: [(m.RenewDelegationTokenRequest(hmac=b"x"), 2)],
        ApiKey.EXPIRE_DELEGATION_TOKEN: [(m.ExpireDelegationTokenRequest(hmac=b"x"), 2)],
        ApiKey.DESCRIBE_DELEGATION_TOKEN: [(m.DescribeDelegationTokenRequest(), 3)],
        ApiKey.DESCRIBE_CLIENT_QUOTAS: [(m.DescribeClientQuotasRequest(), 1)],
        ApiKey.ALTER_CLIENT_QUOTAS: [(m.AlterClientQuotasRequest(entries=[quota]), 1)],
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: [(m.DescribeUserScramCredentialsRequest(users=None), 0)],
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [
            (m.AlterUserScramCredentialsRequest(deletions=[removed], upsertions=[user]), 0)
        ],
    }
