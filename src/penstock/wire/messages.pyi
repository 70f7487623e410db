# Made by `python -m penstock.wire.stubs`; do not edit.
from collections.abc import Sized
from typing import ClassVar

from penstock.wire import schema

ZERO_UUID: bytes

class Struct: ...

class Message(Struct):
    SCHEMA: ClassVar[schema.Message]
    RECORD_TYPE: ClassVar[int]
    ENCODERS: ClassVar[dict[int, object]]
    RESPONSE_ENCODERS: ClassVar[dict[int, object]]
    DECODERS: ClassVar[dict[int, object]]

def default_source(field: schema.Field) -> str: ...
def message_class(name: str) -> type[Message]: ...

class AddOffsetsToTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(self, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., group_id: str = ...) -> None: ...

class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class AddPartitionsToTxnRequest(Message):
    class AddPartitionsToTxnTopic(Struct):
        name: str
        partitions: list[int]
        def __init__(self, name: str = ..., partitions: list[int] = ...) -> None: ...
    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
        def __init__(self, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., verify_only: bool = ..., topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...) -> None: ...
    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
    def __init__(self, transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ..., v3_and_below_transactional_id: str = ..., v3_and_below_producer_id: int = ..., v3_and_below_producer_epoch: int = ..., v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...) -> None: ...

class AddPartitionsToTxnResponse(Message):
    class AddPartitionsToTxnTopicResult(Struct):
        name: str
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]
        def __init__(self, name: str = ..., results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...) -> None: ...
    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int
        partition_error_code: int
        def __init__(self, partition_index: int = ..., partition_error_code: int = ...) -> None: ...
    class AddPartitionsToTxnResult(Struct):
        transactional_id: str
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
        def __init__(self, transactional_id: str = ..., topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ..., results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...) -> None: ...

class AddRaftVoterRequest(Message):
    class Listener(Struct):
        name: str
        host: str
        port: int
        def __init__(self, name: str = ..., host: str = ..., port: int = ...) -> None: ...
    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: bytes
    listeners: list[AddRaftVoterRequest.Listener]
    ack_when_committed: bool
    def __init__(self, cluster_id: str | None = ..., timeout_ms: int = ..., voter_id: int = ..., voter_directory_id: bytes = ..., listeners: list[AddRaftVoterRequest.Listener] = ..., ack_when_committed: bool = ...) -> None: ...

class AddRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class AlterClientQuotasRequest(Message):
    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]
        def __init__(self, entity: list[AlterClientQuotasRequest.EntityData] = ..., ops: list[AlterClientQuotasRequest.OpData] = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    class OpData(Struct):
        key: str
        value: float
        remove: bool
        def __init__(self, key: str = ..., value: float = ..., remove: bool = ...) -> None: ...
    entries: list[AlterClientQuotasRequest.EntryData]
    validate_only: bool
    def __init__(self, entries: list[AlterClientQuotasRequest.EntryData] = ..., validate_only: bool = ...) -> None: ...

class AlterClientQuotasResponse(Message):
    class EntryData(Struct):
        error_code: int
        error_message: str | None
        entity: list[AlterClientQuotasResponse.EntityData]
        def __init__(self, error_code: int = ..., error_message: str | None = ..., entity: list[AlterClientQuotasResponse.EntityData] = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    throttle_time_ms: int
    entries: list[AlterClientQuotasResponse.EntryData]
    def __init__(self, throttle_time_ms: int = ..., entries: list[AlterClientQuotasResponse.EntryData] = ...) -> None: ...

class AlterConfigsRequest(Message):
    class AlterConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configs: list[AlterConfigsRequest.AlterableConfig]
        def __init__(self, resource_type: int = ..., resource_name: str = ..., configs: list[AlterConfigsRequest.AlterableConfig] = ...) -> None: ...
    class AlterableConfig(Struct):
        name: str
        value: str | None
        def __init__(self, name: str = ..., value: str | None = ...) -> None: ...
    resources: list[AlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, resources: list[AlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ...) -> None: ...

class AlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ...) -> None: ...
    throttle_time_ms: int
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, throttle_time_ms: int = ..., responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...) -> None: ...

class AlterPartitionReassignmentsRequest(Message):
    class ReassignableTopic(Struct):
        name: str
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]
        def __init__(self, name: str = ..., partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...) -> None: ...
    class ReassignablePartition(Struct):
        partition_index: int
        replicas: list[int] | None
        def __init__(self, partition_index: int = ..., replicas: list[int] | None = ...) -> None: ...
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]
    def __init__(self, timeout_ms: int = ..., allow_replication_factor_change: bool = ..., topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...) -> None: ...

class AlterPartitionReassignmentsResponse(Message):
    class ReassignableTopicResponse(Struct):
        name: str
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]
        def __init__(self, name: str = ..., partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...) -> None: ...
    class ReassignablePartitionResponse(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]
    def __init__(self, throttle_time_ms: int = ..., allow_replication_factor_change: bool = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...) -> None: ...

class AlterReplicaLogDirsRequest(Message):
    class AlterReplicaLogDir(Struct):
        path: str
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]
        def __init__(self, path: str = ..., topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ...) -> None: ...
    class AlterReplicaLogDirTopic(Struct):
        name: str
        partitions: list[int]
        def __init__(self, name: str = ..., partitions: list[int] = ...) -> None: ...
    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]
    def __init__(self, dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ...) -> None: ...

class AlterReplicaLogDirsResponse(Message):
    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]
        def __init__(self, topic_name: str = ..., partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ...) -> None: ...
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int
        error_code: int
        def __init__(self, partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ...) -> None: ...

class AlterShareGroupOffsetsRequest(Message):
    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]
        def __init__(self, topic_name: str = ..., partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = ...) -> None: ...
    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int
        start_offset: int
        def __init__(self, partition_index: int = ..., start_offset: int = ...) -> None: ...
    group_id: str
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic]
    def __init__(self, group_id: str = ..., topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = ...) -> None: ...

class AlterShareGroupOffsetsResponse(Message):
    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: bytes
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition]
        def __init__(self, topic_name: str = ..., topic_id: bytes = ..., partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = ...) -> None: ...
    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = ...) -> None: ...

class AlterUserScramCredentialsRequest(Message):
    class ScramCredentialDeletion(Struct):
        name: str
        mechanism: int
        def __init__(self, name: str = ..., mechanism: int = ...) -> None: ...
    class ScramCredentialUpsertion(Struct):
        name: str
        mechanism: int
        iterations: int
        salt: bytes | bytearray | memoryview
        salted_password: bytes | bytearray | memoryview
        def __init__(self, name: str = ..., mechanism: int = ..., iterations: int = ..., salt: bytes | bytearray | memoryview = ..., salted_password: bytes | bytearray | memoryview = ...) -> None: ...
    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]
    def __init__(self, deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ..., upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...) -> None: ...

class AlterUserScramCredentialsResponse(Message):
    class AlterUserScramCredentialsResult(Struct):
        user: str
        error_code: int
        error_message: str | None
        def __init__(self, user: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...) -> None: ...

class ApiVersionsRequest(Message):
    client_software_name: str
    client_software_version: str
    def __init__(self, client_software_name: str = ..., client_software_version: str = ...) -> None: ...

class ApiVersionsResponse(Message):
    class ApiVersion(Struct):
        api_key: int
        min_version: int
        max_version: int
        def __init__(self, api_key: int = ..., min_version: int = ..., max_version: int = ...) -> None: ...
    class SupportedFeatureKey(Struct):
        name: str
        min_version: int
        max_version: int
        def __init__(self, name: str = ..., min_version: int = ..., max_version: int = ...) -> None: ...
    class FinalizedFeatureKey(Struct):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(self, name: str = ..., max_version_level: int = ..., min_version_level: int = ...) -> None: ...
    error_code: int
    api_keys: list[ApiVersionsResponse.ApiVersion]
    throttle_time_ms: int
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(self, error_code: int = ..., api_keys: list[ApiVersionsResponse.ApiVersion] = ..., throttle_time_ms: int = ..., supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ..., finalized_features_epoch: int = ..., finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ..., zk_migration_ready: bool = ...) -> None: ...

class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class ConsumerGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]
        def __init__(self, topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ConsumerGroupDescribeResponse.Member] = ..., authorized_operations: int = ...) -> None: ...
    class Member(Struct):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int
        def __init__(self, member_id: str = ..., instance_id: str | None = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., subscribed_topic_regex: str | None = ..., assignment: ConsumerGroupDescribeResponse.Assignment = ..., target_assignment: ConsumerGroupDescribeResponse.Assignment = ..., member_type: int = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup]
    def __init__(self, throttle_time_ms: int = ..., groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class ConsumerGroupHeartbeatRequest(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None
    def __init__(self, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., subscribed_topic_names: list[str] | None = ..., subscribed_topic_regex: str | None = ..., server_assignor: str | None = ..., topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = ...) -> None: ...

class ConsumerGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ConsumerGroupHeartbeatResponse.Assignment | None = ...) -> None: ...

class CreateAclsRequest(Message):
    class AclCreation(Struct):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, resource_type: int = ..., resource_name: str = ..., resource_pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    creations: list[CreateAclsRequest.AclCreation]
    def __init__(self, creations: list[CreateAclsRequest.AclCreation] = ...) -> None: ...

class CreateAclsResponse(Message):
    class AclCreationResult(Struct):
        error_code: int
        error_message: str | None
        def __init__(self, error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreateAclsResponse.AclCreationResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[CreateAclsResponse.AclCreationResult] = ...) -> None: ...

class CreateDelegationTokenRequest(Message):
    class CreatableRenewers(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, principal_type: str = ..., principal_name: str = ...) -> None: ...
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]
    max_lifetime_ms: int
    def __init__(self, owner_principal_type: str | None = ..., owner_principal_name: str | None = ..., renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ..., max_lifetime_ms: int = ...) -> None: ...

class CreateDelegationTokenResponse(Message):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes | bytearray | memoryview
    throttle_time_ms: int
    def __init__(self, error_code: int = ..., principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp_ms: int = ..., expiry_timestamp_ms: int = ..., max_timestamp_ms: int = ..., token_id: str = ..., hmac: bytes | bytearray | memoryview = ..., throttle_time_ms: int = ...) -> None: ...

class CreatePartitionsRequest(Message):
    class CreatePartitionsTopic(Struct):
        name: str
        count: int
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None
        def __init__(self, name: str = ..., count: int = ..., assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...) -> None: ...
    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int]
        def __init__(self, broker_ids: list[int] = ...) -> None: ...
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ..., timeout_ms: int = ..., validate_only: bool = ...) -> None: ...

class CreatePartitionsResponse(Message):
    class CreatePartitionsTopicResult(Struct):
        name: str
        error_code: int
        error_message: str | None
        def __init__(self, name: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...) -> None: ...

class CreateTopicsRequest(Message):
    class CreatableTopic(Struct):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]
        def __init__(self, name: str = ..., num_partitions: int = ..., replication_factor: int = ..., assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ..., configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...) -> None: ...
    class CreatableReplicaAssignment(Struct):
        partition_index: int
        broker_ids: list[int]
        def __init__(self, partition_index: int = ..., broker_ids: list[int] = ...) -> None: ...
    class CreatableTopicConfig(Struct):
        name: str
        value: str | None
        def __init__(self, name: str = ..., value: str | None = ...) -> None: ...
    topics: list[CreateTopicsRequest.CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(self, topics: list[CreateTopicsRequest.CreatableTopic] = ..., timeout_ms: int = ..., validate_only: bool = ...) -> None: ...

class CreateTopicsResponse(Message):
    class CreatableTopicResult(Struct):
        name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None
        def __init__(self, name: str = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ..., topic_config_error_code: int = ..., num_partitions: int = ..., replication_factor: int = ..., configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...) -> None: ...
    class CreatableTopicConfigs(Struct):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(self, name: str = ..., value: str | None = ..., read_only: bool = ..., config_source: int = ..., is_sensitive: bool = ...) -> None: ...
    throttle_time_ms: int
    topics: list[CreateTopicsResponse.CreatableTopicResult]
    def __init__(self, throttle_time_ms: int = ..., topics: list[CreateTopicsResponse.CreatableTopicResult] = ...) -> None: ...

class DeleteAclsRequest(Message):
    class DeleteAclsFilter(Struct):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(self, resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    filters: list[DeleteAclsRequest.DeleteAclsFilter]
    def __init__(self, filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...) -> None: ...

class DeleteAclsResponse(Message):
    class DeleteAclsFilterResult(Struct):
        error_code: int
        error_message: str | None
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]
        def __init__(self, error_code: int = ..., error_message: str | None = ..., matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...) -> None: ...
    class DeleteAclsMatchingAcl(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    throttle_time_ms: int
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]
    def __init__(self, throttle_time_ms: int = ..., filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...) -> None: ...

class DeleteGroupsRequest(Message):
    groups_names: list[str]
    def __init__(self, groups_names: list[str] = ...) -> None: ...

class DeleteGroupsResponse(Message):
    class DeletableGroupResult(Struct):
        group_id: str
        error_code: int
        def __init__(self, group_id: str = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    results: list[DeleteGroupsResponse.DeletableGroupResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[DeleteGroupsResponse.DeletableGroupResult] = ...) -> None: ...

class DeleteRecordsRequest(Message):
    class DeleteRecordsTopic(Struct):
        name: str
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]
        def __init__(self, name: str = ..., partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...) -> None: ...
    class DeleteRecordsPartition(Struct):
        partition_index: int
        offset: int
        def __init__(self, partition_index: int = ..., offset: int = ...) -> None: ...
    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]
    timeout_ms: int
    def __init__(self, topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ..., timeout_ms: int = ...) -> None: ...

class DeleteRecordsResponse(Message):
    class DeleteRecordsTopicResult(Struct):
        name: str
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]
        def __init__(self, name: str = ..., partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...) -> None: ...
    class DeleteRecordsPartitionResult(Struct):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(self, partition_index: int = ..., low_watermark: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]
    def __init__(self, throttle_time_ms: int = ..., topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...) -> None: ...

class DeleteShareGroupOffsetsRequest(Message):
    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        def __init__(self, topic_name: str = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic]
    def __init__(self, group_id: str = ..., topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = ...) -> None: ...

class DeleteShareGroupOffsetsResponse(Message):
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(self, topic_name: str = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = ...) -> None: ...

class DeleteShareGroupStateRequest(Message):
    class DeleteStateData(Struct):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateRequest.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[DeleteShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        def __init__(self, partition: int = ...) -> None: ...
    group_id: str
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]
    def __init__(self, group_id: str = ..., topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ...) -> None: ...

class DeleteShareGroupStateResponse(Message):
    class DeleteStateResult(Struct):
        topic_id: bytes
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]
        def __init__(self, topic_id: bytes = ..., partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[DeleteShareGroupStateResponse.DeleteStateResult]
    def __init__(self, results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ...) -> None: ...

class DeleteTopicsRequest(Message):
    class DeleteTopicState(Struct):
        name: str | None
        topic_id: bytes
        def __init__(self, name: str | None = ..., topic_id: bytes = ...) -> None: ...
    topics: list[DeleteTopicsRequest.DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(self, topics: list[DeleteTopicsRequest.DeleteTopicState] = ..., topic_names: list[str] = ..., timeout_ms: int = ...) -> None: ...

class DeleteTopicsResponse(Message):
    class DeletableTopicResult(Struct):
        name: str | None
        topic_id: bytes
        error_code: int
        error_message: str | None
        def __init__(self, name: str | None = ..., topic_id: bytes = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    responses: list[DeleteTopicsResponse.DeletableTopicResult]
    def __init__(self, throttle_time_ms: int = ..., responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...) -> None: ...

class DescribeAclsRequest(Message):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(self, resource_type_filter: int = ..., resource_name_filter: str | None = ..., pattern_type_filter: int = ..., principal_filter: str | None = ..., host_filter: str | None = ..., operation: int = ..., permission_type: int = ...) -> None: ...

class DescribeAclsResponse(Message):
    class DescribeAclsResource(Struct):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[DescribeAclsResponse.AclDescription]
        def __init__(self, resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., acls: list[DescribeAclsResponse.AclDescription] = ...) -> None: ...
    class AclDescription(Struct):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(self, principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponse.DescribeAclsResource]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., resources: list[DescribeAclsResponse.DescribeAclsResource] = ...) -> None: ...

class DescribeClientQuotasRequest(Message):
    class ComponentData(Struct):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(self, entity_type: str = ..., match_type: int = ..., match: str | None = ...) -> None: ...
    components: list[DescribeClientQuotasRequest.ComponentData]
    strict: bool
    def __init__(self, components: list[DescribeClientQuotasRequest.ComponentData] = ..., strict: bool = ...) -> None: ...

class DescribeClientQuotasResponse(Message):
    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]
        def __init__(self, entity: list[DescribeClientQuotasResponse.EntityData] = ..., values: list[DescribeClientQuotasResponse.ValueData] = ...) -> None: ...
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    class ValueData(Struct):
        key: str
        value: float
        def __init__(self, key: str = ..., value: float = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponse.EntryData] | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., entries: list[DescribeClientQuotasResponse.EntryData] | None = ...) -> None: ...

class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(self, include_cluster_authorized_operations: bool = ..., endpoint_type: int = ..., include_fenced_brokers: bool = ...) -> None: ...

class DescribeClusterResponse(Message):
    class DescribeClusterBroker(Struct):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(self, broker_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ..., is_fenced: bool = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]
    cluster_authorized_operations: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., endpoint_type: int = ..., cluster_id: str = ..., controller_id: int = ..., brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ..., cluster_authorized_operations: int = ...) -> None: ...

class DescribeConfigsRequest(Message):
    class DescribeConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(self, resource_type: int = ..., resource_name: str = ..., configuration_keys: list[str] | None = ...) -> None: ...
    resources: list[DescribeConfigsRequest.DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(self, resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ..., include_synonyms: bool = ..., include_documentation: bool = ...) -> None: ...

class DescribeConfigsResponse(Message):
    class DescribeConfigsResult(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]
        def __init__(self, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ..., configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...) -> None: ...
    class DescribeConfigsResourceResult(Struct):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        def __init__(self, name: str = ..., value: str | None = ..., read_only: bool = ..., config_source: int = ..., is_sensitive: bool = ..., synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ..., config_type: int = ..., documentation: str | None = ...) -> None: ...
    class DescribeConfigsSynonym(Struct):
        name: str
        value: str | None
        source: int
        def __init__(self, name: str = ..., value: str | None = ..., source: int = ...) -> None: ...
    throttle_time_ms: int
    results: list[DescribeConfigsResponse.DescribeConfigsResult]
    def __init__(self, throttle_time_ms: int = ..., results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...) -> None: ...

class DescribeDelegationTokenRequest(Message):
    class DescribeDelegationTokenOwner(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, principal_type: str = ..., principal_name: str = ...) -> None: ...
    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
    def __init__(self, owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ...) -> None: ...

class DescribeDelegationTokenResponse(Message):
    class DescribedDelegationToken(Struct):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: bytes | bytearray | memoryview
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]
        def __init__(self, principal_type: str = ..., principal_name: str = ..., token_requester_principal_type: str = ..., token_requester_principal_name: str = ..., issue_timestamp: int = ..., expiry_timestamp: int = ..., max_timestamp: int = ..., token_id: str = ..., hmac: bytes | bytearray | memoryview = ..., renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ...) -> None: ...
    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str
        principal_name: str
        def __init__(self, principal_type: str = ..., principal_name: str = ...) -> None: ...
    error_code: int
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]
    throttle_time_ms: int
    def __init__(self, error_code: int = ..., tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ..., throttle_time_ms: int = ...) -> None: ...

class DescribeGroupsRequest(Message):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(self, groups: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class DescribeGroupsResponse(Message):
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int
        def __init__(self, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., protocol_type: str = ..., protocol_data: str = ..., members: list[DescribeGroupsResponse.DescribedGroupMember] = ..., authorized_operations: int = ...) -> None: ...
    class DescribedGroupMember(Struct):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: bytes | bytearray | memoryview
        member_assignment: bytes | bytearray | memoryview
        def __init__(self, member_id: str = ..., group_instance_id: str | None = ..., client_id: str = ..., client_host: str = ..., member_metadata: bytes | bytearray | memoryview = ..., member_assignment: bytes | bytearray | memoryview = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeGroupsResponse.DescribedGroup]
    def __init__(self, throttle_time_ms: int = ..., groups: list[DescribeGroupsResponse.DescribedGroup] = ...) -> None: ...

class DescribeLogDirsRequest(Message):
    class DescribableLogDirTopic(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None
    def __init__(self, topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...) -> None: ...

class DescribeLogDirsResponse(Message):
    class DescribeLogDirsResult(Struct):
        error_code: int
        log_dir: str
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        is_cordoned: bool
        def __init__(self, error_code: int = ..., log_dir: str = ..., topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ..., total_bytes: int = ..., usable_bytes: int = ..., is_cordoned: bool = ...) -> None: ...
    class DescribeLogDirsTopic(Struct):
        name: str
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]
        def __init__(self, name: str = ..., partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...) -> None: ...
    class DescribeLogDirsPartition(Struct):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(self, partition_index: int = ..., partition_size: int = ..., offset_lag: int = ..., is_future_key: bool = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...) -> None: ...

class DescribeProducersRequest(Message):
    class TopicRequest(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    topics: list[DescribeProducersRequest.TopicRequest]
    def __init__(self, topics: list[DescribeProducersRequest.TopicRequest] = ...) -> None: ...

class DescribeProducersResponse(Message):
    class TopicResponse(Struct):
        name: str
        partitions: list[DescribeProducersResponse.PartitionResponse]
        def __init__(self, name: str = ..., partitions: list[DescribeProducersResponse.PartitionResponse] = ...) -> None: ...
    class PartitionResponse(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[DescribeProducersResponse.ProducerState]
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., active_producers: list[DescribeProducersResponse.ProducerState] = ...) -> None: ...
    class ProducerState(Struct):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(self, producer_id: int = ..., producer_epoch: int = ..., last_sequence: int = ..., last_timestamp: int = ..., coordinator_epoch: int = ..., current_txn_start_offset: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeProducersResponse.TopicResponse]
    def __init__(self, throttle_time_ms: int = ..., topics: list[DescribeProducersResponse.TopicResponse] = ...) -> None: ...

class DescribeQuorumRequest(Message):
    class TopicData(Struct):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(self, topic_name: str = ..., partitions: list[DescribeQuorumRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        def __init__(self, partition_index: int = ...) -> None: ...
    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(self, topics: list[DescribeQuorumRequest.TopicData] = ...) -> None: ...

class DescribeQuorumResponse(Message):
    class ReplicaState(Struct):
        replica_id: int
        replica_directory_id: bytes
        log_end_offset: int
        last_fetch_timestamp: int
        last_caught_up_timestamp: int
        def __init__(self, replica_id: int = ..., replica_directory_id: bytes = ..., log_end_offset: int = ..., last_fetch_timestamp: int = ..., last_caught_up_timestamp: int = ...) -> None: ...
    class TopicData(Struct):
        topic_name: str
        partitions: list[DescribeQuorumResponse.PartitionData]
        def __init__(self, topic_name: str = ..., partitions: list[DescribeQuorumResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., leader_id: int = ..., leader_epoch: int = ..., high_watermark: int = ..., current_voters: list[DescribeQuorumResponse.ReplicaState] = ..., observers: list[DescribeQuorumResponse.ReplicaState] = ...) -> None: ...
    class Node(Struct):
        node_id: int
        listeners: list[DescribeQuorumResponse.Listener]
        def __init__(self, node_id: int = ..., listeners: list[DescribeQuorumResponse.Listener] = ...) -> None: ...
    class Listener(Struct):
        name: str
        host: str
        port: int
        def __init__(self, name: str = ..., host: str = ..., port: int = ...) -> None: ...
    error_code: int
    error_message: str | None
    topics: list[DescribeQuorumResponse.TopicData]
    nodes: list[DescribeQuorumResponse.Node]
    def __init__(self, error_code: int = ..., error_message: str | None = ..., topics: list[DescribeQuorumResponse.TopicData] = ..., nodes: list[DescribeQuorumResponse.Node] = ...) -> None: ...

class DescribeShareGroupOffsetsRequest(Message):
    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        def __init__(self, group_id: str = ..., topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = ...) -> None: ...
    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str
        partitions: list[int]
        def __init__(self, topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup]
    def __init__(self, groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = ...) -> None: ...

class DescribeShareGroupOffsetsResponse(Message):
    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic]
        error_code: int
        error_message: str | None
        def __init__(self, group_id: str = ..., topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str
        topic_id: bytes
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition]
        def __init__(self, topic_name: str = ..., topic_id: bytes = ..., partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = ...) -> None: ...
    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int
        start_offset: int
        leader_epoch: int
        lag: int
        error_code: int
        error_message: str | None
        def __init__(self, partition_index: int = ..., start_offset: int = ..., leader_epoch: int = ..., lag: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup]
    def __init__(self, throttle_time_ms: int = ..., groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = ...) -> None: ...

class DescribeTopicPartitionsRequest(Message):
    class TopicRequest(Struct):
        name: str
        def __init__(self, name: str = ...) -> None: ...
    class Cursor(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, topic_name: str = ..., partition_index: int = ...) -> None: ...
    topics: list[DescribeTopicPartitionsRequest.TopicRequest]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequest.Cursor | None
    def __init__(self, topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ..., response_partition_limit: int = ..., cursor: DescribeTopicPartitionsRequest.Cursor | None = ...) -> None: ...

class DescribeTopicPartitionsResponse(Message):
    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: int
        def __init__(self, error_code: int = ..., name: str | None = ..., topic_id: bytes = ..., is_internal: bool = ..., partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ..., topic_authorized_operations: int = ...) -> None: ...
    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(self, error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ..., offline_replicas: list[int] = ...) -> None: ...
    class Cursor(Struct):
        topic_name: str
        partition_index: int
        def __init__(self, topic_name: str = ..., partition_index: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None
    def __init__(self, throttle_time_ms: int = ..., topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ..., next_cursor: DescribeTopicPartitionsResponse.Cursor | None = ...) -> None: ...

class DescribeTransactionsRequest(Message):
    transactional_ids: list[str]
    def __init__(self, transactional_ids: list[str] = ...) -> None: ...

class DescribeTransactionsResponse(Message):
    class TransactionState(Struct):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[DescribeTransactionsResponse.TopicData]
        def __init__(self, error_code: int = ..., transactional_id: str = ..., transaction_state: str = ..., transaction_timeout_ms: int = ..., transaction_start_time_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., topics: list[DescribeTransactionsResponse.TopicData] = ...) -> None: ...
    class TopicData(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    throttle_time_ms: int
    transaction_states: list[DescribeTransactionsResponse.TransactionState]
    def __init__(self, throttle_time_ms: int = ..., transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...) -> None: ...

class DescribeUserScramCredentialsRequest(Message):
    class UserName(Struct):
        name: str
        def __init__(self, name: str = ...) -> None: ...
    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(self, users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...) -> None: ...

class DescribeUserScramCredentialsResponse(Message):
    class DescribeUserScramCredentialsResult(Struct):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]
        def __init__(self, user: str = ..., error_code: int = ..., error_message: str | None = ..., credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...) -> None: ...
    class CredentialInfo(Struct):
        mechanism: int
        iterations: int
        def __init__(self, mechanism: int = ..., iterations: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...) -> None: ...

class ElectLeadersRequest(Message):
    class TopicPartitions(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    election_type: int
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(self, election_type: int = ..., topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ..., timeout_ms: int = ...) -> None: ...

class ElectLeadersResponse(Message):
    class ReplicaElectionResult(Struct):
        topic: str
        partition_result: list[ElectLeadersResponse.PartitionResult]
        def __init__(self, topic: str = ..., partition_result: list[ElectLeadersResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(self, partition_id: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...) -> None: ...

class EndTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(self, transactional_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., committed: bool = ...) -> None: ...

class EndTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ...) -> None: ...

class ExpireDelegationTokenRequest(Message):
    hmac: bytes | bytearray | memoryview
    expiry_time_period_ms: int
    def __init__(self, hmac: bytes | bytearray | memoryview = ..., expiry_time_period_ms: int = ...) -> None: ...

class ExpireDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ...) -> None: ...

class FetchRequest(Message):
    class ReplicaState(Struct):
        replica_id: int
        replica_epoch: int
        def __init__(self, replica_id: int = ..., replica_epoch: int = ...) -> None: ...
    class FetchTopic(Struct):
        topic: str
        topic_id: bytes
        partitions: list[FetchRequest.FetchPartition]
        def __init__(self, topic: str = ..., topic_id: bytes = ..., partitions: list[FetchRequest.FetchPartition] = ...) -> None: ...
    class FetchPartition(Struct):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: bytes
        high_watermark: int
        def __init__(self, partition: int = ..., current_leader_epoch: int = ..., fetch_offset: int = ..., last_fetched_epoch: int = ..., log_start_offset: int = ..., partition_max_bytes: int = ..., replica_directory_id: bytes = ..., high_watermark: int = ...) -> None: ...
    class ForgottenTopic(Struct):
        topic: str
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic: str = ..., topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    cluster_id: str | None
    replica_id: int
    replica_state: FetchRequest.ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]
    rack_id: str
    def __init__(self, cluster_id: str | None = ..., replica_id: int = ..., replica_state: FetchRequest.ReplicaState = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., isolation_level: int = ..., session_id: int = ..., session_epoch: int = ..., topics: list[FetchRequest.FetchTopic] = ..., forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ..., rack_id: str = ...) -> None: ...

class FetchResponse(Message):
    class FetchableTopicResponse(Struct):
        topic: str
        topic_id: bytes
        partitions: list[FetchResponse.PartitionData]
        def __init__(self, topic: str = ..., topic_id: bytes = ..., partitions: list[FetchResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: FetchResponse.EpochEndOffset
        current_leader: FetchResponse.LeaderIdAndEpoch
        snapshot_id: FetchResponse.SnapshotId
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int
        records: bytes | bytearray | memoryview | Sized | None
        def __init__(self, partition_index: int = ..., error_code: int = ..., high_watermark: int = ..., last_stable_offset: int = ..., log_start_offset: int = ..., diverging_epoch: FetchResponse.EpochEndOffset = ..., current_leader: FetchResponse.LeaderIdAndEpoch = ..., snapshot_id: FetchResponse.SnapshotId = ..., aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ..., preferred_read_replica: int = ..., records: bytes | bytearray | memoryview | Sized | None = ...) -> None: ...
    class EpochEndOffset(Struct):
        epoch: int
        end_offset: int
        def __init__(self, epoch: int = ..., end_offset: int = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class SnapshotId(Struct):
        end_offset: int
        epoch: int
        def __init__(self, end_offset: int = ..., epoch: int = ...) -> None: ...
    class AbortedTransaction(Struct):
        producer_id: int
        first_offset: int
        def __init__(self, producer_id: int = ..., first_offset: int = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchResponse.FetchableTopicResponse]
    node_endpoints: list[FetchResponse.NodeEndpoint]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., session_id: int = ..., responses: list[FetchResponse.FetchableTopicResponse] = ..., node_endpoints: list[FetchResponse.NodeEndpoint] = ...) -> None: ...

class FindCoordinatorRequest(Message):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(self, key: str = ..., key_type: int = ..., coordinator_keys: list[str] = ...) -> None: ...

class FindCoordinatorResponse(Message):
    class Coordinator(Struct):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(self, key: str = ..., node_id: int = ..., host: str = ..., port: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[FindCoordinatorResponse.Coordinator]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., node_id: int = ..., host: str = ..., port: int = ..., coordinators: list[FindCoordinatorResponse.Coordinator] = ...) -> None: ...

class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: bytes
    def __init__(self, client_instance_id: bytes = ...) -> None: ...

class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int
    error_code: int
    client_instance_id: bytes
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., client_instance_id: bytes = ..., subscription_id: int = ..., accepted_compression_types: list[int] = ..., push_interval_ms: int = ..., telemetry_max_bytes: int = ..., delta_temporality: bool = ..., requested_metrics: list[str] = ...) -> None: ...

class HeartbeatRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(self, group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ...) -> None: ...

class HeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class IncrementalAlterConfigsRequest(Message):
    class AlterConfigsResource(Struct):
        resource_type: int
        resource_name: str
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]
        def __init__(self, resource_type: int = ..., resource_name: str = ..., configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...) -> None: ...
    class AlterableConfig(Struct):
        name: str
        config_operation: int
        value: str | None
        def __init__(self, name: str = ..., config_operation: int = ..., value: str | None = ...) -> None: ...
    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(self, resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ..., validate_only: bool = ...) -> None: ...

class IncrementalAlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Struct):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(self, error_code: int = ..., error_message: str | None = ..., resource_type: int = ..., resource_name: str = ...) -> None: ...
    throttle_time_ms: int
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(self, throttle_time_ms: int = ..., responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...) -> None: ...

class InitProducerIdRequest(Message):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(self, transactional_id: str | None = ..., transaction_timeout_ms: int = ..., producer_id: int = ..., producer_epoch: int = ..., enable2_pc: bool = ..., keep_prepared_txn: bool = ...) -> None: ...

class InitProducerIdResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., producer_id: int = ..., producer_epoch: int = ..., ongoing_txn_producer_id: int = ..., ongoing_txn_producer_epoch: int = ...) -> None: ...

class InitializeShareGroupStateRequest(Message):
    class InitializeStateData(Struct):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateRequest.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[InitializeShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        state_epoch: int
        start_offset: int
        def __init__(self, partition: int = ..., state_epoch: int = ..., start_offset: int = ...) -> None: ...
    group_id: str
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]
    def __init__(self, group_id: str = ..., topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ...) -> None: ...

class InitializeShareGroupStateResponse(Message):
    class InitializeStateResult(Struct):
        topic_id: bytes
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]
        def __init__(self, topic_id: bytes = ..., partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[InitializeShareGroupStateResponse.InitializeStateResult]
    def __init__(self, results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ...) -> None: ...

class JoinGroupRequest(Message):
    class JoinGroupRequestProtocol(Struct):
        name: str
        metadata: bytes | bytearray | memoryview
        def __init__(self, name: str = ..., metadata: bytes | bytearray | memoryview = ...) -> None: ...
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol]
    reason: str | None
    def __init__(self, group_id: str = ..., session_timeout_ms: int = ..., rebalance_timeout_ms: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str = ..., protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ..., reason: str | None = ...) -> None: ...

class JoinGroupResponse(Message):
    class JoinGroupResponseMember(Struct):
        member_id: str
        group_instance_id: str | None
        metadata: bytes | bytearray | memoryview
        def __init__(self, member_id: str = ..., group_instance_id: str | None = ..., metadata: bytes | bytearray | memoryview = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponse.JoinGroupResponseMember]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., generation_id: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., leader: str = ..., skip_assignment: bool = ..., member_id: str = ..., members: list[JoinGroupResponse.JoinGroupResponseMember] = ...) -> None: ...

class LeaveGroupRequest(Message):
    class MemberIdentity(Struct):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(self, member_id: str = ..., group_instance_id: str | None = ..., reason: str | None = ...) -> None: ...
    group_id: str
    member_id: str
    members: list[LeaveGroupRequest.MemberIdentity]
    def __init__(self, group_id: str = ..., member_id: str = ..., members: list[LeaveGroupRequest.MemberIdentity] = ...) -> None: ...

class LeaveGroupResponse(Message):
    class MemberResponse(Struct):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(self, member_id: str = ..., group_instance_id: str | None = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    members: list[LeaveGroupResponse.MemberResponse]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., members: list[LeaveGroupResponse.MemberResponse] = ...) -> None: ...

class ListConfigResourcesRequest(Message):
    resource_types: list[int]
    def __init__(self, resource_types: list[int] = ...) -> None: ...

class ListConfigResourcesResponse(Message):
    class ConfigResource(Struct):
        resource_name: str
        resource_type: int
        def __init__(self, resource_name: str = ..., resource_type: int = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    config_resources: list[ListConfigResourcesResponse.ConfigResource]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...) -> None: ...

class ListGroupsRequest(Message):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(self, states_filter: list[str] = ..., types_filter: list[str] = ...) -> None: ...

class ListGroupsResponse(Message):
    class ListedGroup(Struct):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(self, group_id: str = ..., protocol_type: str = ..., group_state: str = ..., group_type: str = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    groups: list[ListGroupsResponse.ListedGroup]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., groups: list[ListGroupsResponse.ListedGroup] = ...) -> None: ...

class ListOffsetsRequest(Message):
    class ListOffsetsTopic(Struct):
        name: str
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]
        def __init__(self, name: str = ..., partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...) -> None: ...
    class ListOffsetsPartition(Struct):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        def __init__(self, partition_index: int = ..., current_leader_epoch: int = ..., timestamp: int = ...) -> None: ...
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsRequest.ListOffsetsTopic]
    timeout_ms: int
    def __init__(self, replica_id: int = ..., isolation_level: int = ..., topics: list[ListOffsetsRequest.ListOffsetsTopic] = ..., timeout_ms: int = ...) -> None: ...

class ListOffsetsResponse(Message):
    class ListOffsetsTopicResponse(Struct):
        name: str
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]
        def __init__(self, name: str = ..., partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...) -> None: ...
    class ListOffsetsPartitionResponse(Struct):
        partition_index: int
        error_code: int
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(self, partition_index: int = ..., error_code: int = ..., timestamp: int = ..., offset: int = ..., leader_epoch: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]
    def __init__(self, throttle_time_ms: int = ..., topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...) -> None: ...

class ListPartitionReassignmentsRequest(Message):
    class ListPartitionReassignmentsTopics(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    timeout_ms: int
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
    def __init__(self, timeout_ms: int = ..., topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = ...) -> None: ...

class ListPartitionReassignmentsResponse(Message):
    class OngoingTopicReassignment(Struct):
        name: str
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]
        def __init__(self, name: str = ..., partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...) -> None: ...
    class OngoingPartitionReassignment(Struct):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(self, partition_index: int = ..., replicas: list[int] = ..., adding_replicas: list[int] = ..., removing_replicas: list[int] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...) -> None: ...

class ListTransactionsRequest(Message):
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(self, state_filters: list[str] = ..., producer_id_filters: list[int] = ..., duration_filter: int = ..., transactional_id_pattern: str | None = ...) -> None: ...

class ListTransactionsResponse(Message):
    class TransactionState(Struct):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(self, transactional_id: str = ..., producer_id: int = ..., transaction_state: str = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponse.TransactionState]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., unknown_state_filters: list[str] = ..., transaction_states: list[ListTransactionsResponse.TransactionState] = ...) -> None: ...

class MetadataRequest(Message):
    class MetadataRequestTopic(Struct):
        topic_id: bytes
        name: str | None
        def __init__(self, topic_id: bytes = ..., name: str | None = ...) -> None: ...
    topics: list[MetadataRequest.MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(self, topics: list[MetadataRequest.MetadataRequestTopic] | None = ..., allow_auto_topic_creation: bool = ..., include_cluster_authorized_operations: bool = ..., include_topic_authorized_operations: bool = ...) -> None: ...

class MetadataResponse(Message):
    class MetadataResponseBroker(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    class MetadataResponseTopic(Struct):
        error_code: int
        name: str | None
        topic_id: bytes
        is_internal: bool
        partitions: list[MetadataResponse.MetadataResponsePartition]
        topic_authorized_operations: int
        def __init__(self, error_code: int = ..., name: str | None = ..., topic_id: bytes = ..., is_internal: bool = ..., partitions: list[MetadataResponse.MetadataResponsePartition] = ..., topic_authorized_operations: int = ...) -> None: ...
    class MetadataResponsePartition(Struct):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(self, error_code: int = ..., partition_index: int = ..., leader_id: int = ..., leader_epoch: int = ..., replica_nodes: list[int] = ..., isr_nodes: list[int] = ..., offline_replicas: list[int] = ...) -> None: ...
    throttle_time_ms: int
    brokers: list[MetadataResponse.MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponse.MetadataResponseTopic]
    cluster_authorized_operations: int
    error_code: int
    def __init__(self, throttle_time_ms: int = ..., brokers: list[MetadataResponse.MetadataResponseBroker] = ..., cluster_id: str | None = ..., controller_id: int = ..., topics: list[MetadataResponse.MetadataResponseTopic] = ..., cluster_authorized_operations: int = ..., error_code: int = ...) -> None: ...

class OffsetCommitRequest(Message):
    class OffsetCommitRequestTopic(Struct):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...) -> None: ...
    class OffsetCommitRequestPartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(self, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., committed_metadata: str | None = ...) -> None: ...
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic]
    def __init__(self, group_id: str = ..., generation_id_or_member_epoch: int = ..., member_id: str = ..., group_instance_id: str | None = ..., retention_time_ms: int = ..., topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...) -> None: ...

class OffsetCommitResponse(Message):
    class OffsetCommitResponseTopic(Struct):
        name: str
        topic_id: bytes
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...) -> None: ...
    class OffsetCommitResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]
    def __init__(self, throttle_time_ms: int = ..., topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...) -> None: ...

class OffsetDeleteRequest(Message):
    class OffsetDeleteRequestTopic(Struct):
        name: str
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition]
        def __init__(self, name: str = ..., partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...) -> None: ...
    class OffsetDeleteRequestPartition(Struct):
        partition_index: int
        def __init__(self, partition_index: int = ...) -> None: ...
    group_id: str
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic]
    def __init__(self, group_id: str = ..., topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...) -> None: ...

class OffsetDeleteResponse(Message):
    class OffsetDeleteResponseTopic(Struct):
        name: str
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition]
        def __init__(self, name: str = ..., partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...) -> None: ...
    class OffsetDeleteResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, partition_index: int = ..., error_code: int = ...) -> None: ...
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic]
    def __init__(self, error_code: int = ..., throttle_time_ms: int = ..., topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...) -> None: ...

class OffsetFetchRequest(Message):
    class OffsetFetchRequestTopic(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    class OffsetFetchRequestGroup(Struct):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None
        def __init__(self, group_id: str = ..., member_id: str | None = ..., member_epoch: int = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...) -> None: ...
    class OffsetFetchRequestTopics(Struct):
        name: str
        topic_id: bytes
        partition_indexes: list[int]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partition_indexes: list[int] = ...) -> None: ...
    group_id: str
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup]
    require_stable: bool
    def __init__(self, group_id: str = ..., topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ..., groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ..., require_stable: bool = ...) -> None: ...

class OffsetFetchResponse(Message):
    class OffsetFetchResponseTopic(Struct):
        name: str
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition]
        def __init__(self, name: str = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...) -> None: ...
    class OffsetFetchResponsePartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ...) -> None: ...
    class OffsetFetchResponseGroup(Struct):
        group_id: str
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics]
        error_code: int
        def __init__(self, group_id: str = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ..., error_code: int = ...) -> None: ...
    class OffsetFetchResponseTopics(Struct):
        name: str
        topic_id: bytes
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...) -> None: ...
    class OffsetFetchResponsePartitions(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(self, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., metadata: str | None = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup]
    def __init__(self, throttle_time_ms: int = ..., topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ..., error_code: int = ..., groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...) -> None: ...

class OffsetForLeaderEpochRequest(Message):
    class OffsetForLeaderTopic(Struct):
        topic: str
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]
        def __init__(self, topic: str = ..., partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...) -> None: ...
    class OffsetForLeaderPartition(Struct):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(self, partition: int = ..., current_leader_epoch: int = ..., leader_epoch: int = ...) -> None: ...
    replica_id: int
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]
    def __init__(self, replica_id: int = ..., topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...) -> None: ...

class OffsetForLeaderEpochResponse(Message):
    class OffsetForLeaderTopicResult(Struct):
        topic: str
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]
        def __init__(self, topic: str = ..., partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...) -> None: ...
    class EpochEndOffset(Struct):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(self, error_code: int = ..., partition: int = ..., leader_epoch: int = ..., end_offset: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]
    def __init__(self, throttle_time_ms: int = ..., topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...) -> None: ...

class ProduceRequest(Message):
    class TopicProduceData(Struct):
        name: str
        topic_id: bytes
        partition_data: list[ProduceRequest.PartitionProduceData]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partition_data: list[ProduceRequest.PartitionProduceData] = ...) -> None: ...
    class PartitionProduceData(Struct):
        index: int
        records: bytes | bytearray | memoryview | Sized | None
        def __init__(self, index: int = ..., records: bytes | bytearray | memoryview | Sized | None = ...) -> None: ...
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequest.TopicProduceData]
    def __init__(self, transactional_id: str | None = ..., acks: int = ..., timeout_ms: int = ..., topic_data: list[ProduceRequest.TopicProduceData] = ...) -> None: ...

class ProduceResponse(Message):
    class TopicProduceResponse(Struct):
        name: str
        topic_id: bytes
        partition_responses: list[ProduceResponse.PartitionProduceResponse]
        def __init__(self, name: str = ..., topic_id: bytes = ..., partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...) -> None: ...
    class PartitionProduceResponse(Struct):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: ProduceResponse.LeaderIdAndEpoch
        def __init__(self, index: int = ..., error_code: int = ..., base_offset: int = ..., log_append_time_ms: int = ..., log_start_offset: int = ..., record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ..., error_message: str | None = ..., current_leader: ProduceResponse.LeaderIdAndEpoch = ...) -> None: ...
    class BatchIndexAndErrorMessage(Struct):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(self, batch_index: int = ..., batch_index_error_message: str | None = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    responses: list[ProduceResponse.TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[ProduceResponse.NodeEndpoint]
    def __init__(self, responses: list[ProduceResponse.TopicProduceResponse] = ..., throttle_time_ms: int = ..., node_endpoints: list[ProduceResponse.NodeEndpoint] = ...) -> None: ...

class PushTelemetryRequest(Message):
    client_instance_id: bytes
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes | bytearray | memoryview
    def __init__(self, client_instance_id: bytes = ..., subscription_id: int = ..., terminating: bool = ..., compression_type: int = ..., metrics: bytes | bytearray | memoryview = ...) -> None: ...

class PushTelemetryResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ...) -> None: ...

class ReadShareGroupStateRequest(Message):
    class ReadStateData(Struct):
        topic_id: bytes
        partitions: list[ReadShareGroupStateRequest.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[ReadShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        leader_epoch: int
        def __init__(self, partition: int = ..., leader_epoch: int = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateRequest.ReadStateData]
    def __init__(self, group_id: str = ..., topics: list[ReadShareGroupStateRequest.ReadStateData] = ...) -> None: ...

class ReadShareGroupStateResponse(Message):
    class ReadStateResult(Struct):
        topic_id: bytes
        partitions: list[ReadShareGroupStateResponse.PartitionResult]
        def __init__(self, topic_id: bytes = ..., partitions: list[ReadShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        start_offset: int
        state_batches: list[ReadShareGroupStateResponse.StateBatch]
        def __init__(self, partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., start_offset: int = ..., state_batches: list[ReadShareGroupStateResponse.StateBatch] = ...) -> None: ...
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    results: list[ReadShareGroupStateResponse.ReadStateResult]
    def __init__(self, results: list[ReadShareGroupStateResponse.ReadStateResult] = ...) -> None: ...

class ReadShareGroupStateSummaryRequest(Message):
    class ReadStateSummaryData(Struct):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        leader_epoch: int
        def __init__(self, partition: int = ..., leader_epoch: int = ...) -> None: ...
    group_id: str
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData]
    def __init__(self, group_id: str = ..., topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ...) -> None: ...

class ReadShareGroupStateSummaryResponse(Message):
    class ReadStateSummaryResult(Struct):
        topic_id: bytes
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]
        def __init__(self, topic_id: bytes = ..., partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        def __init__(self, partition: int = ..., error_code: int = ..., error_message: str | None = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ...) -> None: ...
    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult]
    def __init__(self, results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ...) -> None: ...

class RemoveRaftVoterRequest(Message):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes
    def __init__(self, cluster_id: str | None = ..., voter_id: int = ..., voter_directory_id: bytes = ...) -> None: ...

class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class RenewDelegationTokenRequest(Message):
    hmac: bytes | bytearray | memoryview
    renew_period_ms: int
    def __init__(self, hmac: bytes | bytearray | memoryview = ..., renew_period_ms: int = ...) -> None: ...

class RenewDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(self, error_code: int = ..., expiry_timestamp_ms: int = ..., throttle_time_ms: int = ...) -> None: ...

class SaslAuthenticateRequest(Message):
    auth_bytes: bytes | bytearray | memoryview
    def __init__(self, auth_bytes: bytes | bytearray | memoryview = ...) -> None: ...

class SaslAuthenticateResponse(Message):
    error_code: int
    error_message: str | None
    auth_bytes: bytes | bytearray | memoryview
    session_lifetime_ms: int
    def __init__(self, error_code: int = ..., error_message: str | None = ..., auth_bytes: bytes | bytearray | memoryview = ..., session_lifetime_ms: int = ...) -> None: ...

class SaslHandshakeRequest(Message):
    mechanism: str
    def __init__(self, mechanism: str = ...) -> None: ...

class SaslHandshakeResponse(Message):
    error_code: int
    mechanisms: list[str]
    def __init__(self, error_code: int = ..., mechanisms: list[str] = ...) -> None: ...

class ShareAcknowledgeRequest(Message):
    class AcknowledgeTopic(Struct):
        topic_id: bytes
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]
        def __init__(self, topic_id: bytes = ..., partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ...) -> None: ...
    class AcknowledgePartition(Struct):
        partition_index: int
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]
        def __init__(self, partition_index: int = ..., acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ...) -> None: ...
    class AcknowledgementBatch(Struct):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]
    def __init__(self, group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., is_renew_ack: bool = ..., topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ...) -> None: ...

class ShareAcknowledgeResponse(Message):
    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: bytes
        partitions: list[ShareAcknowledgeResponse.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[ShareAcknowledgeResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ..., node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ...) -> None: ...

class ShareFetchRequest(Message):
    class FetchTopic(Struct):
        topic_id: bytes
        partitions: list[ShareFetchRequest.FetchPartition]
        def __init__(self, topic_id: bytes = ..., partitions: list[ShareFetchRequest.FetchPartition] = ...) -> None: ...
    class FetchPartition(Struct):
        partition_index: int
        partition_max_bytes: int
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]
        def __init__(self, partition_index: int = ..., partition_max_bytes: int = ..., acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...) -> None: ...
    class AcknowledgementBatch(Struct):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(self, first_offset: int = ..., last_offset: int = ..., acknowledge_types: list[int] = ...) -> None: ...
    class ForgottenTopic(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[ShareFetchRequest.FetchTopic]
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]
    def __init__(self, group_id: str | None = ..., member_id: str | None = ..., share_session_epoch: int = ..., max_wait_ms: int = ..., min_bytes: int = ..., max_bytes: int = ..., max_records: int = ..., batch_size: int = ..., share_acquire_mode: int = ..., is_renew_ack: bool = ..., topics: list[ShareFetchRequest.FetchTopic] = ..., forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...) -> None: ...

class ShareFetchResponse(Message):
    class ShareFetchableTopicResponse(Struct):
        topic_id: bytes
        partitions: list[ShareFetchResponse.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[ShareFetchResponse.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition_index: int
        error_code: int
        error_message: str | None
        acknowledge_error_code: int
        acknowledge_error_message: str | None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: bytes | bytearray | memoryview | Sized | None
        acquired_records: list[ShareFetchResponse.AcquiredRecords]
        def __init__(self, partition_index: int = ..., error_code: int = ..., error_message: str | None = ..., acknowledge_error_code: int = ..., acknowledge_error_message: str | None = ..., current_leader: ShareFetchResponse.LeaderIdAndEpoch = ..., records: bytes | bytearray | memoryview | Sized | None = ..., acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...) -> None: ...
    class LeaderIdAndEpoch(Struct):
        leader_id: int
        leader_epoch: int
        def __init__(self, leader_id: int = ..., leader_epoch: int = ...) -> None: ...
    class AcquiredRecords(Struct):
        first_offset: int
        last_offset: int
        delivery_count: int
        def __init__(self, first_offset: int = ..., last_offset: int = ..., delivery_count: int = ...) -> None: ...
    class NodeEndpoint(Struct):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(self, node_id: int = ..., host: str = ..., port: int = ..., rack: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., acquisition_lock_timeout_ms: int = ..., responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ..., node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...) -> None: ...

class ShareGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class ShareGroupDescribeResponse(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]
        def __init__(self, topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., assignor_name: str = ..., members: list[ShareGroupDescribeResponse.Member] = ..., authorized_operations: int = ...) -> None: ...
    class Member(Struct):
        member_id: str
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        assignment: ShareGroupDescribeResponse.Assignment
        def __init__(self, member_id: str = ..., rack_id: str | None = ..., member_epoch: int = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., assignment: ShareGroupDescribeResponse.Assignment = ...) -> None: ...
    throttle_time_ms: int
    groups: list[ShareGroupDescribeResponse.DescribedGroup]
    def __init__(self, throttle_time_ms: int = ..., groups: list[ShareGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class ShareGroupHeartbeatRequest(Message):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(self, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., rack_id: str | None = ..., subscribed_topic_names: list[str] | None = ...) -> None: ...

class ShareGroupHeartbeatResponse(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]
        def __init__(self, topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponse.Assignment | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str | None = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., assignment: ShareGroupHeartbeatResponse.Assignment | None = ...) -> None: ...

class StreamsGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(self, group_ids: list[str] = ..., include_authorized_operations: bool = ...) -> None: ...

class StreamsGroupDescribeResponse(Message):
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, host: str = ..., port: int = ...) -> None: ...
    class TaskOffset(Struct):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, subtopology_id: str = ..., partition: int = ..., offset: int = ...) -> None: ...
    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        def __init__(self, active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ..., warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class KeyValue(Struct):
        key: str
        value: str
        def __init__(self, key: str = ..., value: str = ...) -> None: ...
    class TopicInfo(Struct):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]
        def __init__(self, name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ...) -> None: ...
    class DescribedGroup(Struct):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        topology: StreamsGroupDescribeResponse.Topology | None
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(self, error_code: int = ..., error_message: str | None = ..., group_id: str = ..., group_state: str = ..., group_epoch: int = ..., assignment_epoch: int = ..., topology: StreamsGroupDescribeResponse.Topology | None = ..., members: list[StreamsGroupDescribeResponse.Member] = ..., authorized_operations: int = ...) -> None: ...
    class Topology(Struct):
        epoch: int
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None
        def __init__(self, epoch: int = ..., subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = ...) -> None: ...
    class Subtopology(Struct):
        subtopology_id: str
        source_topics: list[str]
        repartition_sink_topics: list[str]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        def __init__(self, subtopology_id: str = ..., source_topics: list[str] = ..., repartition_sink_topics: list[str] = ..., state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ..., repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...) -> None: ...
    class Member(Struct):
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        client_id: str
        client_host: str
        topology_epoch: int
        process_id: str
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool
        def __init__(self, member_id: str = ..., member_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., topology_epoch: int = ..., process_id: str = ..., user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = ..., client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ..., task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ..., assignment: StreamsGroupDescribeResponse.Assignment = ..., target_assignment: StreamsGroupDescribeResponse.Assignment = ..., is_classic: bool = ...) -> None: ...
    throttle_time_ms: int
    groups: list[StreamsGroupDescribeResponse.DescribedGroup]
    def __init__(self, throttle_time_ms: int = ..., groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ...) -> None: ...

class StreamsGroupHeartbeatRequest(Message):
    class KeyValue(Struct):
        key: str
        value: str
        def __init__(self, key: str = ..., value: str = ...) -> None: ...
    class TopicInfo(Struct):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]
        def __init__(self, name: str = ..., partitions: int = ..., replication_factor: int = ..., topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ...) -> None: ...
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, host: str = ..., port: int = ...) -> None: ...
    class TaskOffset(Struct):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(self, subtopology_id: str = ..., partition: int = ..., offset: int = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class Topology(Struct):
        epoch: int
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]
        def __init__(self, epoch: int = ..., subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ...) -> None: ...
    class Subtopology(Struct):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]
        def __init__(self, subtopology_id: str = ..., source_topics: list[str] = ..., source_topic_regex: list[str] = ..., state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., repartition_sink_topics: list[str] = ..., repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ..., copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ...) -> None: ...
    class CopartitionGroup(Struct):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(self, source_topics: list[int] = ..., source_topic_regex: list[int] = ..., repartition_source_topics: list[int] = ...) -> None: ...
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupHeartbeatRequest.Topology | None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    shutdown_application: bool
    def __init__(self, group_id: str = ..., member_id: str = ..., member_epoch: int = ..., endpoint_information_epoch: int = ..., instance_id: str | None = ..., rack_id: str | None = ..., rebalance_timeout_ms: int = ..., topology: StreamsGroupHeartbeatRequest.Topology | None = ..., active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ..., process_id: str | None = ..., user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = ..., client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = ..., task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ..., shutdown_application: bool = ...) -> None: ...

class StreamsGroupHeartbeatResponse(Message):
    class Status(Struct):
        status_code: int
        status_detail: str
        def __init__(self, status_code: int = ..., status_detail: str = ...) -> None: ...
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    class TaskIds(Struct):
        subtopology_id: str
        partitions: list[int]
        def __init__(self, subtopology_id: str = ..., partitions: list[int] = ...) -> None: ...
    class Endpoint(Struct):
        host: str
        port: int
        def __init__(self, host: str = ..., port: int = ...) -> None: ...
    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        def __init__(self, user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ..., active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ..., standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag: int
    task_offset_interval_ms: int
    status: list[StreamsGroupHeartbeatResponse.Status] | None
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    endpoint_information_epoch: int
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., member_id: str = ..., member_epoch: int = ..., heartbeat_interval_ms: int = ..., acceptable_recovery_lag: int = ..., task_offset_interval_ms: int = ..., status: list[StreamsGroupHeartbeatResponse.Status] | None = ..., active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ..., endpoint_information_epoch: int = ..., partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = ...) -> None: ...

class SyncGroupRequest(Message):
    class SyncGroupRequestAssignment(Struct):
        member_id: str
        assignment: bytes | bytearray | memoryview
        def __init__(self, member_id: str = ..., assignment: bytes | bytearray | memoryview = ...) -> None: ...
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment]
    def __init__(self, group_id: str = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...) -> None: ...

class SyncGroupResponse(Message):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes | bytearray | memoryview
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., protocol_type: str | None = ..., protocol_name: str | None = ..., assignment: bytes | bytearray | memoryview = ...) -> None: ...

class TxnOffsetCommitRequest(Message):
    class TxnOffsetCommitRequestTopic(Struct):
        name: str
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]
        def __init__(self, name: str = ..., partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...) -> None: ...
    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(self, partition_index: int = ..., committed_offset: int = ..., committed_leader_epoch: int = ..., committed_metadata: str | None = ...) -> None: ...
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]
    def __init__(self, transactional_id: str = ..., group_id: str = ..., producer_id: int = ..., producer_epoch: int = ..., generation_id: int = ..., member_id: str = ..., group_instance_id: str | None = ..., topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...) -> None: ...

class TxnOffsetCommitResponse(Message):
    class TxnOffsetCommitResponseTopic(Struct):
        name: str
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition]
        def __init__(self, name: str = ..., partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...) -> None: ...
    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int
        error_code: int
        def __init__(self, partition_index: int = ..., error_code: int = ...) -> None: ...
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]
    def __init__(self, throttle_time_ms: int = ..., topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...) -> None: ...

class UnregisterBrokerRequest(Message):
    broker_id: int
    def __init__(self, broker_id: int = ...) -> None: ...

class UnregisterBrokerResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...

class UpdateFeaturesRequest(Message):
    class FeatureUpdateKey(Struct):
        feature: str
        max_version_level: int
        allow_downgrade: bool
        upgrade_type: int
        def __init__(self, feature: str = ..., max_version_level: int = ..., allow_downgrade: bool = ..., upgrade_type: int = ...) -> None: ...
    timeout_ms: int
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    validate_only: bool
    def __init__(self, timeout_ms: int = ..., feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ..., validate_only: bool = ...) -> None: ...

class UpdateFeaturesResponse(Message):
    class UpdatableFeatureResult(Struct):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(self, feature: str = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]
    def __init__(self, throttle_time_ms: int = ..., error_code: int = ..., error_message: str | None = ..., results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...) -> None: ...

class WriteShareGroupStateRequest(Message):
    class WriteStateData(Struct):
        topic_id: bytes
        partitions: list[WriteShareGroupStateRequest.PartitionData]
        def __init__(self, topic_id: bytes = ..., partitions: list[WriteShareGroupStateRequest.PartitionData] = ...) -> None: ...
    class PartitionData(Struct):
        partition: int
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        state_batches: list[WriteShareGroupStateRequest.StateBatch]
        def __init__(self, partition: int = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., state_batches: list[WriteShareGroupStateRequest.StateBatch] = ...) -> None: ...
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    group_id: str
    topics: list[WriteShareGroupStateRequest.WriteStateData]
    def __init__(self, group_id: str = ..., topics: list[WriteShareGroupStateRequest.WriteStateData] = ...) -> None: ...

class WriteShareGroupStateResponse(Message):
    class WriteStateResult(Struct):
        topic_id: bytes
        partitions: list[WriteShareGroupStateResponse.PartitionResult]
        def __init__(self, topic_id: bytes = ..., partitions: list[WriteShareGroupStateResponse.PartitionResult] = ...) -> None: ...
    class PartitionResult(Struct):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(self, partition: int = ..., error_code: int = ..., error_message: str | None = ...) -> None: ...
    results: list[WriteShareGroupStateResponse.WriteStateResult]
    def __init__(self, results: list[WriteShareGroupStateResponse.WriteStateResult] = ...) -> None: ...

class WriteTxnMarkersRequest(Message):
    class WritableTxnMarker(Struct):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(self, producer_id: int = ..., producer_epoch: int = ..., transaction_result: bool = ..., topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ..., coordinator_epoch: int = ..., transaction_version: int = ...) -> None: ...
    class WritableTxnMarkerTopic(Struct):
        name: str
        partition_indexes: list[int]
        def __init__(self, name: str = ..., partition_indexes: list[int] = ...) -> None: ...
    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]
    def __init__(self, markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...) -> None: ...

class WriteTxnMarkersResponse(Message):
    class WritableTxnMarkerResult(Struct):
        producer_id: int
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]
        def __init__(self, producer_id: int = ..., topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...) -> None: ...
    class WritableTxnMarkerTopicResult(Struct):
        name: str
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]
        def __init__(self, name: str = ..., partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...) -> None: ...
    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int
        error_code: int
        def __init__(self, partition_index: int = ..., error_code: int = ...) -> None: ...
    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]
    def __init__(self, markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...) -> None: ...

class ConsumerProtocolAssignment(Message):
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]
    user_data: bytes | bytearray | memoryview | None
    def __init__(self, assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = ..., user_data: bytes | bytearray | memoryview | None = ...) -> None: ...

class ConsumerProtocolSubscription(Message):
    class TopicPartition(Struct):
        topic: str
        partitions: list[int]
        def __init__(self, topic: str = ..., partitions: list[int] = ...) -> None: ...
    topics: list[str]
    user_data: bytes | bytearray | memoryview | None
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]
    generation_id: int
    rack_id: str | None
    def __init__(self, topics: list[str] = ..., user_data: bytes | bytearray | memoryview | None = ..., owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = ..., generation_id: int = ..., rack_id: str | None = ...) -> None: ...

class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ConsumerGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ..., assignment_epochs: list[int] | None = ...) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(self, member_epoch: int = ..., previous_member_epoch: int = ..., state: int = ..., assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ..., partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ...) -> None: ...

class ConsumerGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ConsumerGroupMemberMetadataValue(Message):
    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]
        def __init__(self, session_timeout_ms: int = ..., supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = ...) -> None: ...
    class ClassicProtocol(Struct):
        name: str
        metadata: bytes | bytearray | memoryview
        def __init__(self, name: str = ..., metadata: bytes | bytearray | memoryview = ...) -> None: ...
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None
    def __init__(self, instance_id: str | None = ..., rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ..., subscribed_topic_regex: str | None = ..., rebalance_timeout_ms: int = ..., server_assignor: str | None = ..., classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = ...) -> None: ...

class ConsumerGroupMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ConsumerGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(self, epoch: int = ..., metadata_hash: int = ...) -> None: ...

class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ConsumerGroupPartitionMetadataValue(Message):
    class TopicMetadata(Struct):
        topic_id: bytes
        topic_name: str
        num_partitions: int
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]
        def __init__(self, topic_id: bytes = ..., topic_name: str = ..., num_partitions: int = ..., partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = ...) -> None: ...
    class PartitionMetadata(Struct):
        partition: int
        racks: list[str]
        def __init__(self, partition: int = ..., racks: list[str] = ...) -> None: ...
    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata]
    def __init__(self, topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = ...) -> None: ...

class ConsumerGroupRegularExpressionKey(Message):
    group_id: str
    regular_expression: str
    def __init__(self, group_id: str = ..., regular_expression: str = ...) -> None: ...

class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str]
    version: int
    timestamp: int
    def __init__(self, topics: list[str] = ..., version: int = ..., timestamp: int = ...) -> None: ...

class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ConsumerGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(self, topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = ...) -> None: ...

class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, assignment_epoch: int = ..., assignment_timestamp: int = ...) -> None: ...

class GroupMetadataKey(Message):
    group: str
    def __init__(self, group: str = ...) -> None: ...

class GroupMetadataValue(Message):
    class MemberMetadata(Struct):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        rebalance_timeout: int
        session_timeout: int
        subscription: bytes | bytearray | memoryview
        assignment: bytes | bytearray | memoryview
        def __init__(self, member_id: str = ..., group_instance_id: str | None = ..., client_id: str = ..., client_host: str = ..., rebalance_timeout: int = ..., session_timeout: int = ..., subscription: bytes | bytearray | memoryview = ..., assignment: bytes | bytearray | memoryview = ...) -> None: ...
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[GroupMetadataValue.MemberMetadata]
    def __init__(self, protocol_type: str = ..., generation: int = ..., protocol: str | None = ..., leader: str | None = ..., current_state_timestamp: int = ..., members: list[GroupMetadataValue.MemberMetadata] = ...) -> None: ...

class LegacyOffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(self, group: str = ..., topic: str = ..., partition: int = ...) -> None: ...

class LegacyOffsetCommitValue(Message):
    offset: int
    metadata: str
    commit_timestamp: int
    def __init__(self, offset: int = ..., metadata: str = ..., commit_timestamp: int = ...) -> None: ...

class OffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(self, group: str = ..., topic: str = ..., partition: int = ...) -> None: ...

class OffsetCommitValue(Message):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    def __init__(self, offset: int = ..., leader_epoch: int = ..., metadata: str = ..., commit_timestamp: int = ..., expire_timestamp: int = ..., topic_id: bytes = ...) -> None: ...

class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ShareGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(self, member_epoch: int = ..., previous_member_epoch: int = ..., state: int = ..., assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = ...) -> None: ...

class ShareGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    def __init__(self, rack_id: str | None = ..., client_id: str = ..., client_host: str = ..., subscribed_topic_names: list[str] = ...) -> None: ...

class ShareGroupMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ShareGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(self, epoch: int = ..., metadata_hash: int = ...) -> None: ...

class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ShareGroupStatePartitionMetadataValue(Message):
    class TopicPartitionsInfo(Struct):
        topic_id: bytes
        topic_name: str
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., topic_name: str = ..., partitions: list[int] = ...) -> None: ...
    class TopicInfo(Struct):
        topic_id: bytes
        topic_name: str
        def __init__(self, topic_id: bytes = ..., topic_name: str = ...) -> None: ...
    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo]
    def __init__(self, initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ..., initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ..., deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = ...) -> None: ...

class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(self, group_id: str = ..., member_id: str = ...) -> None: ...

class ShareGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Struct):
        topic_id: bytes
        partitions: list[int]
        def __init__(self, topic_id: bytes = ..., partitions: list[int] = ...) -> None: ...
    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(self, topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = ...) -> None: ...

class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(self, group_id: str = ...) -> None: ...

class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(self, assignment_epoch: int = ..., assignment_timestamp: int = ...) -> None: ...

class TopicRecord(Message):
    name: str
    topic_id: bytes
    def __init__(self, name: str = ..., topic_id: bytes = ...) -> None: ...

class PartitionRecord(Message):
    partition_id: int
    topic_id: bytes
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[bytes]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, partition_id: int = ..., topic_id: bytes = ..., replicas: list[int] = ..., isr: list[int] = ..., removing_replicas: list[int] = ..., adding_replicas: list[int] = ..., leader: int = ..., leader_recovery_state: int = ..., leader_epoch: int = ..., partition_epoch: int = ..., directories: list[bytes] = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ...) -> None: ...

class PartitionChangeRecord(Message):
    partition_id: int
    topic_id: bytes
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    directories: list[bytes] | None
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(self, partition_id: int = ..., topic_id: bytes = ..., isr: list[int] | None = ..., leader: int = ..., replicas: list[int] | None = ..., removing_replicas: list[int] | None = ..., adding_replicas: list[int] | None = ..., leader_recovery_state: int = ..., directories: list[bytes] | None = ..., eligible_leader_replicas: list[int] | None = ..., last_known_elr: list[int] | None = ...) -> None: ...

class RemoveTopicRecord(Message):
    topic_id: bytes
    def __init__(self, topic_id: bytes = ...) -> None: ...

class ConfigRecord(Message):
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    def __init__(self, resource_type: int = ..., resource_name: str = ..., name: str = ..., value: str | None = ...) -> None: ...

class FeatureLevelRecord(Message):
    name: str
    feature_level: int
    def __init__(self, name: str = ..., feature_level: int = ...) -> None: ...

class AccessControlEntryRecord(Message):
    id: bytes
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, id: bytes = ..., resource_type: int = ..., resource_name: str = ..., pattern_type: int = ..., principal: str = ..., host: str = ..., operation: int = ..., permission_type: int = ...) -> None: ...

class RemoveAccessControlEntryRecord(Message):
    id: bytes
    def __init__(self, id: bytes = ...) -> None: ...

class UserScramCredentialRecord(Message):
    name: str
    mechanism: int
    salt: bytes | bytearray | memoryview
    stored_key: bytes | bytearray | memoryview
    server_key: bytes | bytearray | memoryview
    iterations: int
    def __init__(self, name: str = ..., mechanism: int = ..., salt: bytes | bytearray | memoryview = ..., stored_key: bytes | bytearray | memoryview = ..., server_key: bytes | bytearray | memoryview = ..., iterations: int = ...) -> None: ...

class RemoveUserScramCredentialRecord(Message):
    name: str
    mechanism: int
    def __init__(self, name: str = ..., mechanism: int = ...) -> None: ...

class ClientQuotaRecord(Message):
    class EntityData(Struct):
        entity_type: str
        entity_name: str | None
        def __init__(self, entity_type: str = ..., entity_name: str | None = ...) -> None: ...
    entity: list[ClientQuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(self, entity: list[ClientQuotaRecord.EntityData] = ..., key: str = ..., value: float = ..., remove: bool = ...) -> None: ...

class ProducerIdsRecord(Message):
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(self, broker_id: int = ..., broker_epoch: int = ..., next_producer_id: int = ...) -> None: ...

class RegisterBrokerRecord(Message):
    class BrokerEndpoint(Struct):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(self, name: str = ..., host: str = ..., port: int = ..., security_protocol: int = ...) -> None: ...
    class BrokerFeature(Struct):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(self, name: str = ..., min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    broker_id: int
    is_migrating_zk_broker: bool
    incarnation_id: bytes
    broker_epoch: int
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[bytes]
    cordoned_log_dirs: list[bytes] | None
    def __init__(self, broker_id: int = ..., is_migrating_zk_broker: bool = ..., incarnation_id: bytes = ..., broker_epoch: int = ..., end_points: list[RegisterBrokerRecord.BrokerEndpoint] = ..., features: list[RegisterBrokerRecord.BrokerFeature] = ..., rack: str | None = ..., fenced: bool = ..., in_controlled_shutdown: bool = ..., log_dirs: list[bytes] = ..., cordoned_log_dirs: list[bytes] | None = ...) -> None: ...

class BeginTransactionRecord(Message):
    name: str | None
    def __init__(self, name: str | None = ...) -> None: ...

class EndTransactionRecord(Message):
    def __init__(self) -> None: ...

class AbortTransactionRecord(Message):
    reason: str | None
    def __init__(self, reason: str | None = ...) -> None: ...

class VotersRecord(Message):
    class Voter(Struct):
        voter_id: int
        voter_directory_id: bytes
        endpoints: list[VotersRecord.Endpoint]
        k_raft_version_feature: VotersRecord.KRaftVersionFeature
        def __init__(self, voter_id: int = ..., voter_directory_id: bytes = ..., endpoints: list[VotersRecord.Endpoint] = ..., k_raft_version_feature: VotersRecord.KRaftVersionFeature = ...) -> None: ...
    class Endpoint(Struct):
        name: str
        host: str
        port: int
        def __init__(self, name: str = ..., host: str = ..., port: int = ...) -> None: ...
    class KRaftVersionFeature(Struct):
        min_supported_version: int
        max_supported_version: int
        def __init__(self, min_supported_version: int = ..., max_supported_version: int = ...) -> None: ...
    version: int
    voters: list[VotersRecord.Voter]
    def __init__(self, version: int = ..., voters: list[VotersRecord.Voter] = ...) -> None: ...

class ShareSnapshotKey(Message):
    group_id: str
    topic_id: bytes
    partition: int
    def __init__(self, group_id: str = ..., topic_id: bytes = ..., partition: int = ...) -> None: ...

class ShareSnapshotValue(Message):
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    state_batches: list[ShareSnapshotValue.StateBatch]
    def __init__(self, snapshot_epoch: int = ..., state_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., create_timestamp: int = ..., write_timestamp: int = ..., state_batches: list[ShareSnapshotValue.StateBatch] = ...) -> None: ...

class ShareUpdateKey(Message):
    group_id: str
    topic_id: bytes
    partition: int
    def __init__(self, group_id: str = ..., topic_id: bytes = ..., partition: int = ...) -> None: ...

class ShareUpdateValue(Message):
    class StateBatch(Struct):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(self, first_offset: int = ..., last_offset: int = ..., delivery_state: int = ..., delivery_count: int = ...) -> None: ...
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: list[ShareUpdateValue.StateBatch]
    def __init__(self, snapshot_epoch: int = ..., leader_epoch: int = ..., start_offset: int = ..., delivery_complete_count: int = ..., state_batches: list[ShareUpdateValue.StateBatch] = ...) -> None: ...

class TransactionLogKey(Message):
    transactional_id: str
    def __init__(self, transactional_id: str = ...) -> None: ...

class TransactionLogValue(Message):
    class PartitionsSchema(Struct):
        topic: str
        partition_ids: list[int]
        def __init__(self, topic: str = ..., partition_ids: list[int] = ...) -> None: ...
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    next_producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: int
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int
    def __init__(self, producer_id: int = ..., previous_producer_id: int = ..., next_producer_id: int = ..., producer_epoch: int = ..., next_producer_epoch: int = ..., transaction_timeout_ms: int = ..., transaction_status: int = ..., transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = ..., transaction_last_update_timestamp_ms: int = ..., transaction_start_timestamp_ms: int = ..., client_transaction_version: int = ...) -> None: ...
