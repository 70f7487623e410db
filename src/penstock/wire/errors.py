"""Kafka's error codes, and one exception class for each.

A handler raises the class (or puts its code into a response); a client raises it to its caller. `retriable` is Kafka's
own word on whether the same request may succeed later. `what` says in one sentence what is the matter and what to do.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class KafkaError(Exception):
    """The base of all errors that travel over the wire."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    what: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.what)
        self.message = message or self.what


class UnknownServerError(KafkaError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    what = "the broker met an error it did not expect; its log says more"


class OffsetOutOfRange(KafkaError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    what = "the offset is outside the range the partition still holds; seek to its beginning or end"


class CorruptMessage(KafkaError):
    code = ErrorCode.CORRUPT_MESSAGE
    retriable = True
    what = "the record batch failed its checksum or is malformed; send it again"


class UnknownTopicOrPartition(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    retriable = True
    what = "the broker does not host this topic or partition; create the topic or check its name"


class InvalidFetchSize(KafkaError):
    code = ErrorCode.INVALID_FETCH_SIZE
    what = "the fetch size must be positive"


class LeaderNotAvailable(KafkaError):
    code = ErrorCode.LEADER_NOT_AVAILABLE
    retriable = True
    what = "the partition has no leader at the moment; try again"


class NotLeaderOrFollower(KafkaError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    retriable = True
    what = "this broker does not lead the partition; refresh the metadata and try again"


class RequestTimedOut(KafkaError):
    code = ErrorCode.REQUEST_TIMED_OUT
    retriable = True
    what = "the broker did not finish within the time given; try again or allow more time"


class BrokerNotAvailable(KafkaError):
    code = ErrorCode.BROKER_NOT_AVAILABLE
    what = "broker not available"


class ReplicaNotAvailable(KafkaError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE
    retriable = True
    what = "replica not available"


class MessageTooLarge(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE
    what = "the batch is larger than max.message.bytes of the topic; send less at once or raise that config"


class StaleControllerEpoch(KafkaError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH
    what = "stale controller epoch"


class OffsetMetadataTooLarge(KafkaError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    what = "the metadata string of the commit is longer than offset.metadata.max.bytes"


class Network(KafkaError):
    code = ErrorCode.NETWORK_EXCEPTION
    retriable = True
    what = "network"


class CoordinatorLoadInProgress(KafkaError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    retriable = True
    what = "the coordinator is still loading its state; try again"


class CoordinatorNotAvailable(KafkaError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    retriable = True
    what = "the coordinator is not available; try again"


class NotCoordinator(KafkaError):
    code = ErrorCode.NOT_COORDINATOR
    retriable = True
    what = "this broker is not the coordinator; find the coordinator and try again"


class InvalidTopic(KafkaError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    what = "the topic name is not valid, or the operation is not allowed on this topic"


class RecordListTooLarge(KafkaError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE
    what = "the batch is larger than a log segment; send less at once or raise segment.bytes"


class NotEnoughReplicas(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS
    retriable = True
    what = "not enough replicas"


class NotEnoughReplicasAfterAppend(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    retriable = True
    what = "not enough replicas after append"


class InvalidRequiredAcks(KafkaError):
    code = ErrorCode.INVALID_REQUIRED_ACKS
    what = "acks must be -1 (all), 0 or 1"


class IllegalGeneration(KafkaError):
    code = ErrorCode.ILLEGAL_GENERATION
    what = "the generation is not the current one of the group; rejoin the group"


class InconsistentGroupProtocol(KafkaError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    what = "no assignor or protocol type is common to all members of the group"


class InvalidGroupId(KafkaError):
    code = ErrorCode.INVALID_GROUP_ID
    what = "the group id is not valid; give the consumer a non-empty group id"


class UnknownMemberId(KafkaError):
    code = ErrorCode.UNKNOWN_MEMBER_ID
    what = "the coordinator does not know this member; rejoin the group"


class InvalidSessionTimeout(KafkaError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT
    what = "the session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms"


class RebalanceInProgress(KafkaError):
    code = ErrorCode.REBALANCE_IN_PROGRESS
    what = "the group is rebalancing; rejoin it"


class InvalidCommitOffsetSize(KafkaError):
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    what = "invalid commit offset size"


class TopicAuthorizationFailed(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    what = "topic authorization failed"


class GroupAuthorizationFailed(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    what = "group authorization failed"


class ClusterAuthorizationFailed(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    what = "cluster authorization failed"


class InvalidTimestamp(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP
    what = "the timestamp of a record is outside the accepted range"


class UnsupportedSaslMechanism(KafkaError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    what = "unsupported sasl mechanism"


class IllegalSaslState(KafkaError):
    code = ErrorCode.ILLEGAL_SASL_STATE
    what = "illegal sasl state"


class UnsupportedVersion(KafkaError):
    code = ErrorCode.UNSUPPORTED_VERSION
    what = "the broker does not support this version of the request"


class TopicAlreadyExists(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS
    what = "a topic of this name exists already"


class InvalidPartitions(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS
    what = "the number of partitions is not valid"


class InvalidReplicationFactor(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    what = "the replication factor must be positive and at most the number of brokers"


class InvalidReplicaAssignment(KafkaError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    what = "the replica assignment is not valid"


class InvalidConfig(KafkaError):
    code = ErrorCode.INVALID_CONFIG
    what = "a configuration value is not valid"


class NotController(KafkaError):
    code = ErrorCode.NOT_CONTROLLER
    retriable = True
    what = "not controller"


class InvalidRequest(KafkaError):
    code = ErrorCode.INVALID_REQUEST
    what = "the request is not valid; the broker says why"


class UnsupportedForMessageFormat(KafkaError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    what = "unsupported for message format"


class PolicyViolation(KafkaError):
    code = ErrorCode.POLICY_VIOLATION
    what = "the request is against the policy of the topic"


class OutOfOrderSequenceNumber(KafkaError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    what = "the sequence number of the batch does not follow the last one of this producer"


class DuplicateSequenceNumber(KafkaError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    what = "duplicate sequence number"


class InvalidProducerEpoch(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    what = "a newer producer has taken over this producer id"


class InvalidTxnState(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE
    what = "the operation does not fit the state of the transaction"


class InvalidProducerIdMapping(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    what = "invalid producer id mapping"


class InvalidTransactionTimeout(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    what = "invalid transaction timeout"


class ConcurrentTransactions(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    retriable = True
    what = "the previous transaction of this producer is still being completed; try again"


class TransactionCoordinatorFenced(KafkaError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    what = "transaction coordinator fenced"


class TransactionalIdAuthorizationFailed(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    what = "transactional id authorization failed"


class SecurityDisabled(KafkaError):
    code = ErrorCode.SECURITY_DISABLED
    what = "security disabled"


class OperationNotAttempted(KafkaError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED
    what = "operation not attempted"


class KafkaStorageError(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True
    what = "the broker cannot write to its disk; free some space and try again"


class LogDirNotFound(KafkaError):
    code = ErrorCode.LOG_DIR_NOT_FOUND
    what = "log dir not found"


class SaslAuthenticationFailed(KafkaError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    what = "sasl authentication failed"


class UnknownProducerId(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    what = "unknown producer id"


class ReassignmentInProgress(KafkaError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS
    what = "reassignment in progress"


class DelegationTokenAuthDisabled(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    what = "delegation token auth disabled"


class DelegationTokenNotFound(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    what = "delegation token not found"


class DelegationTokenOwnerMismatch(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    what = "delegation token owner mismatch"


class DelegationTokenRequestNotAllowed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    what = "delegation token request not allowed"


class DelegationTokenAuthorizationFailed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    what = "delegation token authorization failed"


class DelegationTokenExpired(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    what = "delegation token expired"


class InvalidPrincipalType(KafkaError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE
    what = "invalid principal type"


class NonEmptyGroup(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP
    what = "the group still has members; stop them first"


class GroupIdNotFound(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND
    what = "there is no group of this id"


class FetchSessionIdNotFound(KafkaError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    retriable = True
    what = "fetch session id not found"


class InvalidFetchSessionEpoch(KafkaError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    retriable = True
    what = "invalid fetch session epoch"


class ListenerNotFound(KafkaError):
    code = ErrorCode.LISTENER_NOT_FOUND
    retriable = True
    what = "listener not found"


class TopicDeletionDisabled(KafkaError):
    code = ErrorCode.TOPIC_DELETION_DISABLED
    what = "topic deletion disabled"


class FencedLeaderEpoch(KafkaError):
    code = ErrorCode.FENCED_LEADER_EPOCH
    retriable = True
    what = "fenced leader epoch"


class UnknownLeaderEpoch(KafkaError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    retriable = True
    what = "unknown leader epoch"


class UnsupportedCompressionType(KafkaError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    what = "unsupported compression type"


class StaleBrokerEpoch(KafkaError):
    code = ErrorCode.STALE_BROKER_EPOCH
    what = "stale broker epoch"


class OffsetNotAvailable(KafkaError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE
    retriable = True
    what = "offset not available"


class MemberIdRequired(KafkaError):
    code = ErrorCode.MEMBER_ID_REQUIRED
    what = "join again with the member id that the coordinator gave"


class PreferredLeaderNotAvailable(KafkaError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    retriable = True
    what = "preferred leader not available"


class GroupMaxSizeReached(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    what = "the group has as many members as it may have"


class FencedInstanceId(KafkaError):
    code = ErrorCode.FENCED_INSTANCE_ID
    what = "another consumer has joined with the same group.instance.id; give each its own"


class EligibleLeadersNotAvailable(KafkaError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    retriable = True
    what = "eligible leaders not available"


class ElectionNotNeeded(KafkaError):
    code = ErrorCode.ELECTION_NOT_NEEDED
    retriable = True
    what = "election not needed"


class NoReassignmentInProgress(KafkaError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    what = "no reassignment in progress"


class GroupSubscribedToTopic(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    what = "group subscribed to topic"


class InvalidRecord(KafkaError):
    code = ErrorCode.INVALID_RECORD
    what = "a record does not fit the rules of the topic"


class UnstableOffsetCommit(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    retriable = True
    what = "unstable offset commit"


class ThrottlingQuotaExceeded(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    retriable = True
    what = "throttling quota exceeded"


class ProducerFenced(KafkaError):
    code = ErrorCode.PRODUCER_FENCED
    what = "a newer producer with the same transactional id has taken over"


class ResourceNotFound(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND
    what = "resource not found"


class DuplicateResource(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE
    what = "duplicate resource"


class UnacceptableCredential(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL
    what = "unacceptable credential"


class InconsistentVoterSet(KafkaError):
    code = ErrorCode.INCONSISTENT_VOTER_SET
    what = "inconsistent voter set"


class InvalidUpdateVersion(KafkaError):
    code = ErrorCode.INVALID_UPDATE_VERSION
    what = "invalid update version"


class FeatureUpdateFailed(KafkaError):
    code = ErrorCode.FEATURE_UPDATE_FAILED
    what = "feature update failed"


class PrincipalDeserializationFailure(KafkaError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    what = "principal deserialization failure"


class SnapshotNotFound(KafkaError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND
    what = "snapshot not found"


class PositionOutOfRange(KafkaError):
    code = ErrorCode.POSITION_OUT_OF_RANGE
    what = "position out of range"


class UnknownTopicId(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID
    retriable = True
    what = "no topic has this id; it may have been deleted; refresh the metadata"


class DuplicateBrokerRegistration(KafkaError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    what = "duplicate broker registration"


class BrokerIdNotRegistered(KafkaError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED
    what = "broker id not registered"


class InconsistentTopicId(KafkaError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID
    retriable = True
    what = "inconsistent topic id"


class InconsistentClusterId(KafkaError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID
    what = "inconsistent cluster id"


class TransactionalIdNotFound(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    what = "transactional id not found"


class FetchSessionTopicIdError(KafkaError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    retriable = True
    what = "fetch session topic id error"


class IneligibleReplica(KafkaError):
    code = ErrorCode.INELIGIBLE_REPLICA
    what = "ineligible replica"


class NewLeaderElected(KafkaError):
    code = ErrorCode.NEW_LEADER_ELECTED
    what = "new leader elected"


class OffsetMovedToTieredStorage(KafkaError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    what = "offset moved to tiered storage"


class FencedMemberEpoch(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH
    what = "fenced member epoch"


class UnreleasedInstanceId(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID
    what = "unreleased instance id"


class UnsupportedAssignor(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR
    what = "unsupported assignor"


class StaleMemberEpoch(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH
    what = "stale member epoch"


class MismatchedEndpointType(KafkaError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    what = "mismatched endpoint type"


class UnsupportedEndpointType(KafkaError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    what = "unsupported endpoint type"


class UnknownControllerId(KafkaError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID
    what = "unknown controller id"


class UnknownSubscriptionId(KafkaError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    what = "unknown subscription id"


class TelemetryTooLarge(KafkaError):
    code = ErrorCode.TELEMETRY_TOO_LARGE
    what = "telemetry too large"


class InvalidRegistration(KafkaError):
    code = ErrorCode.INVALID_REGISTRATION
    what = "invalid registration"


class TransactionAbortable(KafkaError):
    code = ErrorCode.TRANSACTION_ABORTABLE
    what = "transaction abortable"


class InvalidRecordState(KafkaError):
    code = ErrorCode.INVALID_RECORD_STATE
    what = "the record is not held by this consumer (its lock may have timed out)"


class ShareSessionNotFound(KafkaError):
    code = ErrorCode.SHARE_SESSION_NOT_FOUND
    retriable = True
    what = "the share session is not known; open a new one"


class InvalidShareSessionEpoch(KafkaError):
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    retriable = True
    what = "the epoch of the share session is not the expected one; open a new one"


class FencedStateEpoch(KafkaError):
    code = ErrorCode.FENCED_STATE_EPOCH
    what = "fenced state epoch"


class InvalidVoterKey(KafkaError):
    code = ErrorCode.INVALID_VOTER_KEY
    what = "invalid voter key"


class DuplicateVoter(KafkaError):
    code = ErrorCode.DUPLICATE_VOTER
    what = "duplicate voter"


class VoterNotFound(KafkaError):
    code = ErrorCode.VOTER_NOT_FOUND
    what = "voter not found"


class InvalidRegularExpression(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION
    what = "invalid regular expression"


class RebootstrapRequired(KafkaError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED
    what = "rebootstrap required"


class StreamsInvalidTopology(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY
    what = "streams invalid topology"


class StreamsInvalidTopologyEpoch(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH
    what = "streams invalid topology epoch"


class StreamsTopologyFenced(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED
    what = "streams topology fenced"


class ShareSessionLimitReached(KafkaError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    retriable = True
    what = "share session limit reached"


_CLASSES: dict[int, type[KafkaError]] = {int(cls.code): cls for cls in KafkaError.__subclasses__()}


def error_class(code: int) -> type[KafkaError]:
    """The exception class of a code; codes that this version does not know become `UnknownServerError`."""
    return _CLASSES.get(code, UnknownServerError)


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the exception of `code` unless it is NONE."""
    if code != ErrorCode.NONE:
        raise error_class(code)(message or "")
