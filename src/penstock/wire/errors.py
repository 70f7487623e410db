"""Kafka's error codes, and one exception class for each.

A handler raises the class (or puts its code into a response); a client raises it to its caller. `retriable` is Kafka's
own word on whether the same request may succeed later. `what` says in one sentence what is the matter and what to do.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.wire.error_codes import ErrorCode as ErrorCode


class KafkaError(Exception):
    """The base of all errors that travel over the wire."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    what: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        # Errors that only brokers of a cluster tell each other have no more to say than their name.
        cls.what = cls.what or cls.code.name.lower().replace("_", " ")

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


class ReplicaNotAvailable(KafkaError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE
    retriable = True


class MessageTooLarge(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE
    what = "the batch is larger than max.message.bytes of the topic; send less at once or raise that config"


class StaleControllerEpoch(KafkaError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH


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


class NotEnoughReplicasAfterAppend(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    retriable = True


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


class TopicAuthorizationFailed(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    what = "Topic authorization failed."


class GroupAuthorizationFailed(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    what = "Group authorization failed."


class ClusterAuthorizationFailed(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    what = "Cluster authorization failed."


class InvalidTimestamp(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP
    what = "the timestamp of a record is outside the accepted range"


class UnsupportedSaslMechanism(KafkaError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslState(KafkaError):
    code = ErrorCode.ILLEGAL_SASL_STATE


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


class InvalidRequest(KafkaError):
    code = ErrorCode.INVALID_REQUEST
    what = "the request is not valid; the broker says why"


class UnsupportedForMessageFormat(KafkaError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolation(KafkaError):
    code = ErrorCode.POLICY_VIOLATION
    what = "the request is against the policy of the topic"


class OutOfOrderSequenceNumber(KafkaError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    what = "the sequence number of the batch does not follow the last one of this producer"


class DuplicateSequenceNumber(KafkaError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    what = "a newer producer has taken over this producer id"


class InvalidTxnState(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE
    what = "the operation does not fit the state of the transaction"


class InvalidProducerIdMapping(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    retriable = True
    what = "the previous transaction of this producer is still being completed; try again"


class TransactionCoordinatorFenced(KafkaError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationFailed(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    what = "Transactional Id authorization failed."


class SecurityDisabled(KafkaError):
    code = ErrorCode.SECURITY_DISABLED


class OperationNotAttempted(KafkaError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class KafkaStorageError(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True
    what = "the broker cannot write to its disk; free some space and try again"


class LogDirNotFound(KafkaError):
    code = ErrorCode.LOG_DIR_NOT_FOUND


class SaslAuthenticationFailed(KafkaError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnknownProducerId(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID


class ReassignmentInProgress(KafkaError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class DelegationTokenAuthDisabled(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFound(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatch(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class DelegationTokenRequestNotAllowed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class DelegationTokenAuthorizationFailed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpired(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class InvalidPrincipalType(KafkaError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class NonEmptyGroup(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP
    what = "the group still has members; stop them first"


class GroupIdNotFound(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND
    what = "there is no group of this id"


class FetchSessionIdNotFound(KafkaError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    retriable = True


class InvalidFetchSessionEpoch(KafkaError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
    retriable = True


class ListenerNotFound(KafkaError):
    code = ErrorCode.LISTENER_NOT_FOUND
    retriable = True


class TopicDeletionDisabled(KafkaError):
    code = ErrorCode.TOPIC_DELETION_DISABLED


class FencedLeaderEpoch(KafkaError):
    code = ErrorCode.FENCED_LEADER_EPOCH
    retriable = True


class UnknownLeaderEpoch(KafkaError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    retriable = True


class UnsupportedCompressionType(KafkaError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class StaleBrokerEpoch(KafkaError):
    code = ErrorCode.STALE_BROKER_EPOCH


class OffsetNotAvailable(KafkaError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE
    retriable = True


class MemberIdRequired(KafkaError):
    code = ErrorCode.MEMBER_ID_REQUIRED
    what = "join again with the member id that the coordinator gave"


class PreferredLeaderNotAvailable(KafkaError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    retriable = True


class GroupMaxSizeReached(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    what = "the group has as many members as it may have"


class FencedInstanceId(KafkaError):
    code = ErrorCode.FENCED_INSTANCE_ID
    what = "another consumer has joined with the same group.instance.id; give each its own"


class EligibleLeadersNotAvailable(KafkaError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    retriable = True


class ElectionNotNeeded(KafkaError):
    code = ErrorCode.ELECTION_NOT_NEEDED
    retriable = True


class NoReassignmentInProgress(KafkaError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class GroupSubscribedToTopic(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class InvalidRecord(KafkaError):
    code = ErrorCode.INVALID_RECORD
    what = "a record does not fit the rules of the topic"


class UnstableOffsetCommit(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    retriable = True


class ThrottlingQuotaExceeded(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    retriable = True


class ProducerFenced(KafkaError):
    code = ErrorCode.PRODUCER_FENCED
    what = "a newer producer with the same transactional id has taken over"


class ResourceNotFound(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResource(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE


class UnacceptableCredential(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InconsistentVoterSet(KafkaError):
    code = ErrorCode.INCONSISTENT_VOTER_SET


class InvalidUpdateVersion(KafkaError):
    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailed(KafkaError):
    code = ErrorCode.FEATURE_UPDATE_FAILED


class PrincipalDeserializationFailure(KafkaError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


class SnapshotNotFound(KafkaError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND


class PositionOutOfRange(KafkaError):
    code = ErrorCode.POSITION_OUT_OF_RANGE


class UnknownTopicId(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID
    retriable = True
    what = "no topic has this id; it may have been deleted; refresh the metadata"


class DuplicateBrokerRegistration(KafkaError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class BrokerIdNotRegistered(KafkaError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED


class InconsistentTopicId(KafkaError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID
    retriable = True


class InconsistentClusterId(KafkaError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class TransactionalIdNotFound(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class FetchSessionTopicIdError(KafkaError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    retriable = True


class IneligibleReplica(KafkaError):
    code = ErrorCode.INELIGIBLE_REPLICA


class NewLeaderElected(KafkaError):
    code = ErrorCode.NEW_LEADER_ELECTED


class OffsetMovedToTieredStorage(KafkaError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class FencedMemberEpoch(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceId(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpoch(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH


class MismatchedEndpointType(KafkaError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE


class UnsupportedEndpointType(KafkaError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


class UnknownControllerId(KafkaError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID


class UnknownSubscriptionId(KafkaError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID


class TelemetryTooLarge(KafkaError):
    code = ErrorCode.TELEMETRY_TOO_LARGE


class InvalidRegistration(KafkaError):
    code = ErrorCode.INVALID_REGISTRATION


class TransactionAbortable(KafkaError):
    code = ErrorCode.TRANSACTION_ABORTABLE


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


class InvalidVoterKey(KafkaError):
    code = ErrorCode.INVALID_VOTER_KEY


class DuplicateVoter(KafkaError):
    code = ErrorCode.DUPLICATE_VOTER


class VoterNotFound(KafkaError):
    code = ErrorCode.VOTER_NOT_FOUND


class InvalidRegularExpression(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class RebootstrapRequired(KafkaError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED


class StreamsInvalidTopology(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY


class StreamsInvalidTopologyEpoch(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH


class StreamsTopologyFenced(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED


class ShareSessionLimitReached(KafkaError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    retriable = True


_CLASSES: dict[int, type[KafkaError]] = {int(cls.code): cls for cls in KafkaError.__subclasses__()}


def error_class(code: int) -> type[KafkaError]:
    """The exception class of a code; codes that this version does not know become `UnknownServerError`."""
    return _CLASSES.get(code, UnknownServerError)


def raise_for(code: int, message: str | None = None) -> None:
    """Raise the exception of `code` unless it is NONE."""
    if code != ErrorCode.NONE:
        raise error_class(code)(message or "")
