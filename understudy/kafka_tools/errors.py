"""Errors as Kafka's tools print them: the class and message of a Java exception, its cause and suppressed ones.

The tools' output quotes Java's class names and the default messages of error codes, which programs that
read the output expect. Mirrors `org.apache.kafka.common.protocol.Errors`; the traces are Java's without the lines of
the stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from understudy.foundation.cluster.errors import MALFORMED_REQUEST, Errors
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, NotDecompressed

API = "org.apache.kafka.common.errors."
INVALID_CONFIGURATION = f"{API}InvalidConfigurationException"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
COMMAND_FAILED = "org.apache.kafka.server.common.AdminCommandFailedException"
OPERATION_FAILED = "org.apache.kafka.server.common.AdminOperationException"
EXECUTION = "java.util.concurrent.ExecutionException"
KAFKA_EXCEPTION = "org.apache.kafka.common.KafkaException"
INVALID_RECORD = "org.apache.kafka.common.InvalidRecordException"
RUNTIME = "java.lang.RuntimeException"
JOPTSIMPLE = "joptsimple."
TERSE = "org.apache.kafka.tools.TerseException"
"""The class of errors of which only the message is printed."""
TIMEOUT = f"{API}TimeoutException"
CONFIG = "org.apache.kafka.common.config.ConfigException"

_CODES: dict[int, tuple[str, str]] = {
    -1: ("UnknownServerException", "The server experienced an unexpected error when processing the request."),
    1: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    2: (
        "CorruptRecordException",
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is "
        "otherwise corrupt.",
    ),
    3: ("UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
    5: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    ),
    6: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
        "For requests intended for any replica, this error indicates that the broker is not a replica of the topic "
        "partition.",
    ),
    7: ("TimeoutException", "The request timed out."),
    8: ("BrokerNotAvailableException", "The broker is not available."),
    9: (
        "ReplicaNotAvailableException",
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests "
        "intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of "
        "the topic-partition.",
    ),
    12: ("OffsetMetadataTooLarge", "The metadata field of the offset request was too large."),
    13: ("NetworkException", "The server disconnected before a response was received."),
    14: ("CoordinatorLoadInProgressException", "The coordinator is loading and hence can't process requests."),
    15: ("CoordinatorNotAvailableException", "The coordinator is not available."),
    16: ("NotCoordinatorException", "This is not the correct coordinator."),
    17: ("InvalidTopicException", "The request attempted to perform an operation on an invalid topic."),
    22: ("IllegalGenerationException", "Specified group generation id is not valid."),
    24: ("InvalidGroupIdException", "The configured groupId is invalid."),
    25: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    27: ("RebalanceInProgressException", "The group is rebalancing, so a rejoin is needed."),
    29: ("TopicAuthorizationException", "Topic authorization failed."),
    30: ("GroupAuthorizationException", "Group authorization failed."),
    31: ("ClusterAuthorizationException", "Cluster authorization failed."),
    35: ("UnsupportedVersionException", "The version of API is not supported."),
    36: ("TopicExistsException", "Topic with this name already exists."),
    37: ("InvalidPartitionsException", "Number of partitions is below 1."),
    38: (
        "InvalidReplicationFactorException",
        "Replication factor is below 1 or larger than the number of available brokers.",
    ),
    39: ("InvalidReplicaAssignmentException", "Replica assignment is invalid."),
    40: ("InvalidConfigurationException", "Configuration is invalid."),
    41: ("NotControllerException", "This is not the correct controller for this cluster."),
    10: (
        "RecordTooLargeException",
        "The request included a message larger than the max message size the server will accept.",
    ),
    19: (
        "NotEnoughReplicasException",
        "Messages are rejected since there are fewer in-sync replicas than required.",
    ),
    42: ("InvalidRequestException", MALFORMED_REQUEST),
    43: (
        "UnsupportedForMessageFormatException",
        "The message format version on the broker does not support the request.",
    ),
    44: ("PolicyViolationException", "Request parameters do not satisfy the configured policy."),
    54: ("SecurityDisabledException", "Security features are disabled."),
    56: ("KafkaStorageException", "Disk error when trying to access log file on the disk."),
    57: ("LogDirNotFoundException", "The user-specified log directory is not found in the broker config."),
    60: ("ReassignmentInProgressException", "A partition reassignment is in progress."),
    68: ("GroupNotEmptyException", "The group is not empty."),
    69: ("GroupIdNotFoundException", "The group id does not exist."),
    72: (
        "ListenerNotFoundException",
        "There is no listener on the leader broker that matches the listener on which metadata request was processed.",
    ),
    73: ("TopicDeletionDisabledException", "Topic deletion is disabled."),
    78: (
        "OffsetNotAvailableException",
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be "
        "guaranteed to be monotonically increasing.",
    ),
    80: ("PreferredLeaderNotAvailableException", "The preferred leader was not available."),
    83: ("EligibleLeadersNotAvailableException", "Eligible topic partition leaders are not available."),
    84: ("ElectionNotNeededException", "Leader election not needed for topic partition."),
    85: ("NoReassignmentInProgressException", "No partition reassignment is in progress."),
    86: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
    87: (
        "InvalidRecordException",
        "This record has failed the validation on the broker and hence will be rejected.",
    ),
    88: ("UnstableOffsetCommitException", "There are unstable offsets that need to be cleared."),
    89: ("ThrottlingQuotaExceededException", "The throttling quota has been exceeded."),
    100: ("UnknownTopicIdException", "This server does not host this topic ID."),
    102: ("BrokerIdNotRegisteredException", "The given broker ID was not registered."),
}
"""The exception's class in `org.apache.kafka.common.errors` and the default message of an error code."""


class ToolError(Exception):
    """An error that a tool prints as Java would.

    Args:
        kind: the class of the exception, with its package.
        message: what `getMessage` returns; None if there is none.
        code: the error code in an answer that it stands for; None if there was no such answer.
    """

    def __init__(
        self,
        kind: str,
        message: str | None = None,
        *,
        cause: ToolError | None = None,
        suppressed: Sequence[ToolError] = (),
        code: int | None = None,
    ) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.cause = cause
        self.suppressed = tuple(suppressed)
        self.code = code

    def __str__(self) -> str:
        return self.kind if self.message is None else f"{self.kind}: {self.message}"

    @property
    def shown_message(self) -> str:
        """The message; `null` for none, as Java prints it."""
        return "null" if self.message is None else self.message

    @property
    def trace(self) -> str:
        """What Java prints of the exception, without the lines of the stack; it ends with a newline."""
        return "".join(f"{line}\n" for line in self._trace_lines())

    def is_a(self, *names: str) -> bool:
        """Whether its class is one of `names`, in `org.apache.kafka.common.errors`."""
        return self.kind in {API + name for name in names}

    def _trace_lines(self) -> Iterator[str]:
        yield str(self)
        for error in self.suppressed:
            yield f"\tSuppressed: {error}"
        if self.cause is not None:
            first, *rest = self.cause._trace_lines()
            yield f"Caused by: {first}"
            yield from rest


class UsageError(Exception):
    """The command line cannot be used. The tool prints the message and its usage, and exits with 1."""


def error_of(code: int, message: str | None = None) -> ToolError:
    """Return the exception of an error code in a response, with the message that came with it or the default one."""
    name, default = _CODES.get(code, _CODES[-1])
    return ToolError(API + name, default if message is None else message, code=code)


def error_named(name: str) -> ToolError | None:
    """Return the exception of an error code by Kafka's name of it; None if there is no such code."""
    return error_of(Errors[name]) if name in Errors.__members__ else None


def unreadable(error: ValueError) -> ToolError:
    """Return the exception that Kafka raises for records that cannot be read."""
    match error:
        case NotDecompressed():
            kind = KAFKA_EXCEPTION
        case CorruptRecord():
            kind = f"{API}CorruptRecordException"
        case InvalidRecord():
            kind = INVALID_RECORD
        case _:
            kind = f"{API}UnsupportedVersionException"
    return ToolError(kind, str(error))


def because_of(cause: ToolError, kind: str) -> ToolError:
    """Return the exception that Java makes of its cause alone."""
    return ToolError(kind, str(cause), cause=cause)


def executed(error: ToolError) -> ToolError:
    """Return the exception that waiting for a Java future raises if it failed because of `error`."""
    return because_of(error, EXECUTION)


def illegal_argument(message: str) -> ToolError:
    return ToolError(ILLEGAL_ARGUMENT, message)


def invalid_configuration(message: str) -> ToolError:
    return ToolError(INVALID_CONFIGURATION, message)
