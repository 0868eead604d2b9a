"""Tests of AlterPartition in every version: epochs, leader recovery state, older protocols. Mirrors Kafka's tests."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness, answer_none
from tests.controller.values import ids, state, tp
from understudy.controller.alter_partition import Accept, AlreadySo, Verdict, verdict
from understudy.controller.settings import ControllerSettings
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.eventlog.records import LeadershipWritten
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Create
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

LIVE = ids(1, 2, 3)
RECOVERED_LEADER = state(1, (1, 2), epoch=5, version=9)
RECOVERING_LEADER = state(1, (1,), epoch=5, version=9, recovering=True)
RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


@pytest.mark.spec("IS-10", "IS-19")
@pytest.mark.parametrize("current", [RECOVERED_LEADER, RECOVERING_LEADER])
@pytest.mark.parametrize("isr", [(1,), (1, 2)])
@pytest.mark.parametrize(
    ("epoch", "version", "expected"),
    [
        (5, 10, Errors.NOT_CONTROLLER),
        (6, 9, Errors.NOT_CONTROLLER),
        (4, 9, Errors.FENCED_LEADER_EPOCH),
        (5, 8, Errors.INVALID_UPDATE_VERSION),
        (5, 9, Errors.INVALID_REQUEST),
    ],
)
def test_epochs_are_compared_before_the_recovery_state(
    current: LeaderAndIsr, isr: tuple[int, ...], epoch: int, version: int, expected: Verdict
) -> None:
    """A leader with older epochs may also hold an older recovery state (testAlterPartitionErrors)."""
    proposed = state(1, isr, epoch=epoch, version=version, recovering=True)
    if epoch == 5 and version <= 9 and (current, isr) == (RECOVERING_LEADER, (1,)):
        expected = AlreadySo()
    assert verdict(current, proposed, LIVE, 3) == expected


@pytest.mark.spec("IS-19")
def test_a_recovering_leader_may_be_alone_in_its_isr_only() -> None:
    with_another = state(1, (1, 2), epoch=5, version=9, recovering=True)
    alone = state(1, (1,), epoch=5, version=9, recovering=True)
    assert verdict(with_another, alone, LIVE, 3) == Accept()
    assert verdict(alone, with_another, LIVE, 3) is Errors.INVALID_REQUEST


class AlterPartitionHarness(ControllerHarness):
    """A cluster with topic orders, whose partition 0 is led by broker 1 with ISR 1, 2; broker 0 is controller.

    Args:
        protocol: of the controller, `inter.broker.protocol.version`.
        recovering: the leader has been elected uncleanly, with ISR 1.
    """

    def __init__(self, *, protocol: str = "3.9", recovering: bool = False) -> None:
        version = MetadataVersion.parse(protocol)
        settings = ControllerSettings(inter_broker_protocol_version=version, auto_leader_rebalance_enable=False)
        super().__init__(settings=settings)
        self._recovering = recovering

    def __enter__(self) -> AlterPartitionHarness:
        operator = self.operator
        operator.boot()
        operator.run(operator.open_session())
        self.topic_id = self.create_topic("orders", {0: [1, 2]})
        if self._recovering:
            path = TopicPartitionStateZNode.path(tp("orders-0"))
            parents = (path.rsplit("/", 2)[0], path.rsplit("/", 1)[0])
            data = TopicPartitionStateZNode.encode(state(1, (1,), recovering=True), 0)
            for create in (*(Create(parent) for parent in parents), Create(path, data)):
                operator.run(operator.client.write(create))
        for broker_id in (1, 2, 0):  # the controller last, so that it finds the replicas alive
            self.broker(broker_id).answer = _answer_by_topic_name_without_ids
            self.broker(broker_id).start()
        self.settle()
        self.clear_history()
        return self

    def request(
        self,
        isr: tuple[int, ...],
        version: int,
        *,
        partition_epoch: int = 0,
        recovery: LeaderRecoveryState = RECOVERED,
        topic_id: TopicId | None = None,
    ) -> AlterPartitionResponse:
        """Send a proposal of broker 1 in `version`, as bytes, and return the answer, read from bytes as well."""
        data = AlterPartitionRequestPartitionData(
            partition_index=0,
            partition_epoch=partition_epoch,
            new_isr=() if version > 2 else isr,
            new_isr_with_epochs=tuple(AlterPartitionBrokerState(broker_id=member) for member in isr)
            if version > 2
            else (),
            leader_recovery_state=recovery,
        )
        topic = AlterPartitionRequestTopicData(
            topic_name="orders", topic_id=topic_id or self.topic_id, partitions=(data,)
        )
        asked = AlterPartitionRequest(broker_id=1, broker_epoch=self.broker(1).epoch, topics=(topic,))
        received = decode(AlterPartitionRequest, version, encode(asked, version))
        controller = self.broker(0)
        answer = controller.run(controller.controller.alter_partition(received, version))
        self.settle()
        return decode(AlterPartitionResponse, version, encode(answer, version))

    def written(self) -> list[str]:
        return [record.why for record in self.broker(0).records(LeadershipWritten)]

    @property
    def stored(self) -> LeaderAndIsr:
        """The state in ZooKeeper."""
        known = self.state("orders", 0)
        assert isinstance(known, LeaderIsrAndControllerEpoch)
        return known.leader_and_isr


def _answer_by_topic_name_without_ids(message: Message) -> Message:
    """Respond to LeaderAndIsr as before version 5, without topic ids."""
    if isinstance(message, LeaderAndIsrRequest) and all(each.topic_id == NO_TOPIC_ID for each in message.topic_states):
        return LeaderAndIsrResponse(
            partition_errors=tuple(
                LeaderAndIsrPartitionError(topic_name=topic.topic_name, partition_index=each.partition_index)
                for topic in message.topic_states
                for each in topic.partition_states
            )
        )
    return answer_none(message)


def answered(response: AlterPartitionResponse) -> AlterPartitionResponsePartitionData:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition


@pytest.mark.spec("IS-9", "IS-12", "IS-15")
@pytest.mark.parametrize("version", range(4))
def test_proposal_is_written_and_answered_in_every_version(version: int) -> None:
    with AlterPartitionHarness() as harness:
        response = harness.request((1,), version)
        (topic,) = response.topics
        by_id = (harness.topic_id, "")
        by_name = (NO_TOPIC_ID, "orders")
        assert (topic.topic_id, topic.topic_name) == (by_id if version > 1 else by_name)
        found = answered(response)
        assert (found.error_code, found.leader_id, found.isr, found.partition_epoch) == (Errors.NONE, 1, (1,), 1)
        assert harness.stored == state(1, (1,), version=1)


@pytest.mark.spec("IS-10")
@pytest.mark.parametrize("version", range(4))
def test_replica_that_is_not_alive_is_refused_with_the_error_of_the_version(version: int) -> None:
    with AlterPartitionHarness() as harness:
        expected = Errors.INELIGIBLE_REPLICA if version > 1 else Errors.OPERATION_NOT_ATTEMPTED
        assert answered(harness.request((1, 2, 7), version)).error_code == expected
        assert harness.written() == []


@pytest.mark.spec("IS-19")
@pytest.mark.parametrize("version", range(4))
def test_leader_that_has_recovered_clears_the_recovery_state(version: int) -> None:
    """Version 0 has no recovery state: its leaders always count as recovered, as in Kafka."""
    with AlterPartitionHarness(recovering=True) as harness:
        assert harness.stored.leader_recovery_state is RECOVERING
        found = answered(harness.request((1,), version, recovery=RECOVERED))
        assert (found.error_code, found.leader_recovery_state) == (Errors.NONE, RECOVERED)
        assert harness.stored == state(1, (1,), version=1)


@pytest.mark.spec("IS-10", "IS-19")
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("isr", "partition_epoch", "expected"),
    [
        ((1,), 0, Errors.NONE),
        ((1, 2), 0, Errors.INVALID_REQUEST),
        ((1, 2), 1, Errors.NOT_CONTROLLER),
        ((1, 2), -1, Errors.INVALID_UPDATE_VERSION),
    ],
)
def test_leader_that_is_still_recovering_stays_alone_in_the_isr(
    version: int, isr: tuple[int, ...], partition_epoch: int, expected: Errors
) -> None:
    with AlterPartitionHarness(recovering=True) as harness:
        found = answered(harness.request(isr, version, partition_epoch=partition_epoch, recovery=RECOVERING))
        assert found.error_code == expected
        assert harness.stored == state(1, (1,), recovering=True), "nothing is written"


@pytest.mark.spec("IS-10")
@pytest.mark.parametrize("partition_epoch", [0, 1])
def test_proposal_that_changes_nothing_is_answered_with_the_current_state(partition_epoch: int) -> None:
    """The response to the first request was lost (testIdempotentAlterPartition, KAFKA-14144)."""
    with AlterPartitionHarness() as harness:
        first = harness.request((1,), 3)
        assert harness.written() == ["alter-partition"]
        again = harness.request((1,), 3, partition_epoch=partition_epoch)
        assert again == first
        assert (answered(again).error_code, answered(again).partition_epoch) == (Errors.NONE, 1)
        assert harness.written() == ["alter-partition"], "and not written a second time"
        assert harness.stored == state(1, (1,), version=1)


@pytest.mark.spec("IS-9")
@pytest.mark.parametrize("protocol", ["2.7-IV0", "2.7"])
@pytest.mark.parametrize("version", [2, 3])
def test_controller_with_an_older_protocol_keeps_topic_ids_and_answers_by_them(protocol: str, version: int) -> None:
    """After a downgrade (testAlterPartitionVersion2KeepWorkingWhenControllerDowngradeToPre28IBP)."""
    assert not MetadataVersion.parse(protocol).is_topic_ids_supported
    with AlterPartitionHarness(protocol=protocol) as harness:
        response = harness.request((1,), version)
        assert [topic.topic_id for topic in response.topics] == [harness.topic_id]
        assert answered(response).error_code == Errors.NONE
        unknown = harness.request((1,), version, topic_id=TopicId("x" * 21 + "A"))
        assert answered(unknown).error_code == Errors.UNKNOWN_TOPIC_ID
        assert harness.broker(0).controller.topic_name(harness.topic_id) == "orders"
