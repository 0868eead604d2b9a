"""Which of Apache Kafka's own test classes are run, and which of their tests do not pass with our brokers, and why.

docs/inside/fidelity.md has the same lists; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class JudgedClass(NamedTuple):
    """A class of Kafka's tests.

    Attributes:
        tests: how many of its tests start a broker in ZooKeeper mode.
        is_quick: whether `make interop` runs it.
    """

    name: str
    tests: int
    is_quick: bool = False

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    def exceptions(self) -> set[str]:
        """The names of its tests that have a reason not to pass."""
        names = (name.split(".") for tests in EXCEPTIONS.values() for name in tests)
        return {test for test_class, test in names if test_class == self.short_name}


CLASSES = (
    JudgedClass("kafka.server.ProduceRequestTest", 5, is_quick=True),
    JudgedClass("kafka.server.OffsetsForLeaderEpochRequestTest", 2),
    JudgedClass("kafka.server.DeleteRecordsRequestTest", 3),
    JudgedClass("kafka.server.FetchRequestMaxBytesTest", 1),
    JudgedClass("kafka.server.ReplicaFetchTest", 1, is_quick=True),
    JudgedClass("kafka.api.test.ProducerCompressionTest", 2, is_quick=True),
    JudgedClass("kafka.server.JoinGroupRequestTest", 1, is_quick=True),
    JudgedClass("kafka.server.SyncGroupRequestTest", 1),
    JudgedClass("kafka.server.LeaveGroupRequestTest", 1),
    JudgedClass("kafka.server.OffsetCommitRequestTest", 1, is_quick=True),
    JudgedClass("kafka.server.OffsetFetchRequestTest", 3),
    JudgedClass("kafka.server.OffsetDeleteRequestTest", 1),
    JudgedClass("kafka.server.ListGroupsRequestTest", 1),
    JudgedClass("kafka.server.DescribeGroupsRequestTest", 1),
    JudgedClass("kafka.server.DeleteGroupsRequestTest", 1),
    JudgedClass("kafka.api.PlaintextConsumerCommitTest", 9),
    JudgedClass("kafka.api.PlaintextConsumerSubscriptionTest", 7),
    JudgedClass("kafka.api.PlaintextConsumerAssignorsTest", 7),
    JudgedClass("kafka.api.PlaintextConsumerPollTest", 12),
    JudgedClass("kafka.api.PlaintextConsumerTest", 33),
    JudgedClass("kafka.api.ConsumerBounceTest", 6),
    JudgedClass("kafka.api.GroupCoordinatorIntegrationTest", 1),
    JudgedClass("kafka.api.ConsumerRebootstrapTest", 1),
    JudgedClass("kafka.api.ConsumerWithLegacyMessageFormatIntegrationTest", 2),
    JudgedClass("kafka.tools.MirrorMakerIntegrationTest", 3),
    JudgedClass("org.apache.kafka.tools.consumer.group.ListConsumerGroupTest", 5),
    JudgedClass("org.apache.kafka.tools.consumer.group.DescribeConsumerGroupTest", 28),
    JudgedClass("org.apache.kafka.tools.consumer.group.ResetConsumerGroupOffsetTest", 25),
    JudgedClass("org.apache.kafka.tools.consumer.group.DeleteConsumerGroupsTest", 6),
    JudgedClass("org.apache.kafka.tools.consumer.group.DeleteOffsetsConsumerGroupCommandIntegrationTest", 9),
    JudgedClass("org.apache.kafka.tools.GetOffsetShellTest", 23),
    JudgedClass("kafka.server.LogOffsetTest", 11),
    JudgedClass("kafka.server.ListOffsetsRequestTest", 5),
    JudgedClass("kafka.server.FetchRequestTest", 15),
    JudgedClass("kafka.api.PlaintextProducerSendTest", 27),
    JudgedClass("kafka.api.PlaintextConsumerFetchTest", 8),
    JudgedClass("kafka.api.PlaintextConsumerAssignTest", 9),
    JudgedClass("kafka.api.PlaintextAdminIntegrationTest", 57),
    JudgedClass("kafka.api.ProducerFailureHandlingTest", 10),
    JudgedClass("kafka.api.ProducerSendWhileDeletionTest", 1),
    JudgedClass("kafka.api.LogAppendTimeTest", 1),
    JudgedClass("kafka.admin.ListOffsetsIntegrationTest", 10),
    JudgedClass("kafka.server.LogRecoveryTest", 4),
    JudgedClass("kafka.server.epoch.LeaderEpochIntegrationTest", 3),
    JudgedClass("kafka.server.FetchFromFollowerIntegrationTest", 3),
    JudgedClass("kafka.server.EdgeCaseRequestTest", 5),
    JudgedClass("kafka.server.MetadataRequestTest", 15),
    JudgedClass("kafka.server.CreateTopicsRequestTest", 7),
    JudgedClass("kafka.server.DeleteTopicsRequestTest", 5),
    JudgedClass("kafka.server.DescribeClusterRequestTest", 2),
    JudgedClass("kafka.admin.AddPartitionsTest", 7),
    JudgedClass("kafka.api.ConsumerTopicCreationTest", 1),
    JudgedClass("kafka.api.RackAwareAutoTopicCreationTest", 1),
)


class Exceptional(Enum):
    """Why a test does not pass; the value is how docs/inside/fidelity.md names it."""

    TRANSACTIONS = "Transactions"
    TIERED_STORAGE = "Tiered storage"
    SEVERAL_DIRECTORIES = "Several log directories"
    OLD_FORMATS = "Message formats 0 and 1"
    OWN_OBJECTS = "Kafka's own objects"


EXCEPTIONS: Mapping[Exceptional, tuple[str, ...]] = {
    Exceptional.TRANSACTIONS: ("PlaintextAdminIntegrationTest.testAbortTransaction",),
    Exceptional.TIERED_STORAGE: (
        "GetOffsetShellTest.testGetOffsetsByEarliestLocalSpec",
        "GetOffsetShellTest.testGetOffsetsByLatestTieredSpec",
    ),
    Exceptional.SEVERAL_DIRECTORIES: (
        "PlaintextAdminIntegrationTest.testAlterLogDirsAfterDeleteRecords",
        "PlaintextAdminIntegrationTest.testAlterReplicaLogDirs",
    ),
    Exceptional.OLD_FORMATS: (
        "ConsumerWithLegacyMessageFormatIntegrationTest.testOffsetsForTimes",
        "FetchRequestTest.testZStdCompressedRecords",
        "ListOffsetsIntegrationTest.testListVersion0",
        "ListOffsetsIntegrationTest.testThreeRecordsInOneBatchWithMessageConversion",
        "ListOffsetsIntegrationTest.testThreeRecordsInSeparateBatchWithMessageConversion",
    ),
    Exceptional.OWN_OBJECTS: (
        "ConsumerRebootstrapTest.testRebootstrap",
        "GroupCoordinatorIntegrationTest.testGroupCoordinatorPropagatesOffsetsTopicCompressionCodec",
        "LeaderEpochIntegrationTest.shouldAddCurrentLeaderEpochToMessagesAsTheyAreWrittenToLeader",
        "LogOffsetTest.testFetchOffsetByTimestampForMaxTimestampAfterTruncate",
        "LogOffsetTest.testGetOffsetsAfterDeleteRecords",
        "LogRecoveryTest.testHWCheckpointNoFailuresSingleLogSegment",
        "PlaintextAdminIntegrationTest.testCreateTopicsReturnsConfigs",
        "PlaintextConsumerTest.testQuotaMetricsNotCreatedIfNoQuotasConfigured",
        "ProduceRequestTest.testCorruptLz4ProduceRequest",
    ),
}
"""The tests that do not pass, as `Class.test`."""


def reason_of(test_class: str, test: str) -> Exceptional | None:
    """Why a test does not pass, or None for one that has to."""
    name = f"{test_class.rpartition('.')[2]}.{test}"
    return next((reason for reason, tests in EXCEPTIONS.items() if name in tests), None)
