"""`findings` of a picture of ZooKeeper, with and without the running processes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from understudy.clusters.findings import Finding, FindingKind, findings, in_words
from understudy.clusters.picture import ClusterPicture, PartitionPicture
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState

PARTITION = TopicPartition("orders", 0)


def registered(*ids: int) -> dict[BrokerId, BrokerAndEpoch]:
    endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "localhost", 9092)
    return {BrokerId(broker): BrokerAndEpoch(Broker(id=BrokerId(broker), endpoints=(endpoint,)), 1) for broker in ids}


def cluster(leader: int | None, isr: tuple[int, ...], *, live: tuple[int, ...] = (1, 2, 3)) -> ClusterPicture:
    """Return a picture of one partition with replicas 1, 2, 3; without a partition state if `leader` is None."""
    state = None
    if leader is not None:
        in_sync = tuple(BrokerId(broker) for broker in isr)
        state = LeaderIsrAndControllerEpoch(LeaderAndIsr(BrokerId(leader), 0, in_sync), 1)
    assignment = ReplicaAssignment((BrokerId(1), BrokerId(2), BrokerId(3)))
    partition = PartitionPicture(assignment=assignment, state=state)
    return ClusterPicture(
        controller=BrokerId(1), controller_epoch=1, brokers=registered(*live), partitions={PARTITION: partition}
    )


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        pytest.param(cluster(1, (1, 2, 3)), set(), id="nothing is wrong"),
        pytest.param(cluster(1, (3, 2, 1)), set(), id="the order of the ISR does not matter"),
        pytest.param(cluster(2, (1, 2, 3)), {"not_preferred"}, id="another replica is leader"),
        pytest.param(cluster(1, (1, 3)), {"under_replicated"}, id="a follower is out of sync"),
        pytest.param(
            cluster(2, (2,)), {"under_replicated", "not_preferred"}, id="only a follower is in sync and leads"
        ),
        pytest.param(cluster(-1, (1,)), {"leaderless", "under_replicated"}, id="no leader"),
        pytest.param(cluster(None, ()), {"leaderless", "under_replicated"}, id="no state"),
        pytest.param(cluster(1, (1, 2, 3), live=(2, 3)), {"leaderless"}, id="the leader is not registered"),
    ],
)
def test_findings_about_a_partition(picture: ClusterPicture, expected: set[str]) -> None:
    found = findings(picture)
    kinds = ("leaderless", "under_replicated", "not_preferred")
    assert {kind for kind in kinds if getattr(found, kind) == (PARTITION,)} == expected
    assert found.is_well == (not expected)


@pytest.mark.parametrize(
    ("picture", "running", "unresolved"),
    [
        pytest.param(cluster(1, (1, 2, 3)), (1, 2, 3), set(), id="nothing is wrong"),
        pytest.param(cluster(2, (2, 3)), (1, 2, 3), {FindingKind.UNDER_REPLICATED}, id="a live replica is out of sync"),
        pytest.param(cluster(2, (2, 3), live=(2, 3)), (2, 3), set(), id="a replica that is down is out of sync"),
        pytest.param(cluster(2, (1, 2, 3)), (1, 2, 3), set(), id="only a preferred election is missing"),
        pytest.param(cluster(-1, (1,), live=(2, 3)), (2, 3), set(), id="no replica in sync is live"),
        pytest.param(cluster(None, (), live=(4,)), (4,), set(), id="no state, and no replica is live"),
        pytest.param(
            cluster(None, (), live=(3, 4)), (3, 4), {FindingKind.LEADERLESS}, id="no state, one replica is live"
        ),
        pytest.param(
            cluster(1, (1, 2, 3)),
            (2, 3),
            {FindingKind.REGISTRATION, FindingKind.LEADERLESS},
            id="the leader was killed and its session has not ended",
        ),
        pytest.param(
            cluster(1, (1, 2, 3), live=(1, 2)),
            (1, 2, 3),
            {FindingKind.REGISTRATION},
            id="a running broker is not registered yet",
        ),
    ],
)
def test_findings_that_the_running_brokers_must_resolve(
    picture: ClusterPicture, running: tuple[int, ...], unresolved: set[FindingKind]
) -> None:
    found = findings(picture, running=[BrokerId(broker) for broker in running])
    assert {finding.kind for finding in found.unresolved} == unresolved


@pytest.mark.parametrize(
    ("leader", "recovery", "unresolved"),
    [
        pytest.param(1, LeaderRecoveryState.RECOVERED, {FindingKind.REASSIGNMENT}, id="a leader changed the ISR"),
        pytest.param(1, LeaderRecoveryState.RECOVERING, set(), id="an unclean election changed it"),
        pytest.param(-1, LeaderRecoveryState.RECOVERED, set(), id="no leader"),
        pytest.param(3, LeaderRecoveryState.RECOVERED, {FindingKind.LEADERLESS}, id="a leader that is away"),
    ],
)
def test_a_reassignment_to_live_replicas_is_waited_for_where_the_controller_looks_at_the_isr(
    leader: int, recovery: LeaderRecoveryState, unresolved: set[FindingKind]
) -> None:
    isr = (BrokerId(1), BrokerId(2)) if leader > 0 else (BrokerId(3),)
    state = LeaderAndIsr(BrokerId(leader), 0, isr, recovery)
    moving = ReplicaAssignment(
        (BrokerId(1), BrokerId(2), BrokerId(3)), adding_replicas=(BrokerId(1),), removing_replicas=(BrokerId(3),)
    )
    partition = PartitionPicture(assignment=moving, state=LeaderIsrAndControllerEpoch(state, 1))
    picture = replace(cluster(1, (1, 2), live=(1, 2)), partitions={PARTITION: partition})
    found = findings(picture, running=[BrokerId(1), BrokerId(2)])
    assert {finding.kind for finding in found.unresolved} == unresolved


def test_without_a_running_broker_only_the_missing_ones_are_reported() -> None:
    found = findings(cluster(1, (1, 2, 3)), running=(), missing=[BrokerId(1)])
    assert [str(finding) for finding in found.found] == ["broker 1 should run and does not"]


def test_requests_that_the_controller_has_not_handled_are_found() -> None:
    picture = replace(
        cluster(1, (1, 2, 3)),
        controller=None,
        topics_to_delete=("orders",),
        requested_moves=(TopicPartition("payments", 0),),
        controller_requests=("/isr_change_notification/isr_change_0000000007",),
    )
    assert [finding.kind for finding in findings(picture).found] == [
        FindingKind.CONTROLLER,
        FindingKind.DELETION,
        FindingKind.REQUEST,
        FindingKind.REQUEST,
    ]


def test_a_message_lists_the_first_findings_and_how_many_more_there_are() -> None:
    found = [Finding(kind=FindingKind.PROCESS, message=f"broker {broker} is down") for broker in range(1, 30)]
    assert in_words(found[:2]) == "broker 1 is down; broker 2 is down"
    assert in_words(found).endswith("broker 6 is down; and 23 more")
