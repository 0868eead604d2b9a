"""What a partition lacks: a truth table."""

from __future__ import annotations

import pytest

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.testbed.picture import ClusterPicture, PartitionPicture, findings, leader_of

PARTITION = TopicPartition("orders", 0)


def registered(*ids: int) -> dict[BrokerId, BrokerAndEpoch]:
    endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "localhost", 9092)
    return {BrokerId(broker): BrokerAndEpoch(Broker(id=BrokerId(broker), endpoints=(endpoint,)), 1) for broker in ids}


def cluster(leader: int | None, isr: tuple[int, ...], *, live: tuple[int, ...] = (1, 2, 3)) -> ClusterPicture:
    """One partition with replicas 1, 2, 3; a leader of None stands for a state that is not there."""
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
    ("picture", "lacks"),
    [
        pytest.param(cluster(1, (1, 2, 3)), set(), id="all is well"),
        pytest.param(cluster(1, (3, 2, 1)), set(), id="the order of the ISR means nothing"),
        pytest.param(cluster(2, (1, 2, 3)), {"not_preferred"}, id="another leads"),
        pytest.param(cluster(1, (1, 3)), {"under_replicated"}, id="a follower is behind"),
        pytest.param(cluster(2, (2,)), {"under_replicated", "not_preferred"}, id="only another is in sync"),
        pytest.param(cluster(-1, (1,)), {"leaderless", "under_replicated"}, id="no leader"),
        pytest.param(cluster(None, ()), {"leaderless", "under_replicated"}, id="no state"),
        pytest.param(
            cluster(1, (1, 2, 3), live=(2, 3)), {"leaderless"}, id="its leader is gone and nobody has noticed"
        ),
    ],
)
def test_what_a_partition_lacks(picture: ClusterPicture, lacks: set[str]) -> None:
    found = findings(picture)
    kinds = ("leaderless", "under_replicated", "not_preferred")
    assert {kind for kind in kinds if getattr(found, kind) == (PARTITION,)} == lacks
    assert found.is_well == (not lacks)


def test_a_leader_has_to_be_registered() -> None:
    assert leader_of(cluster(2, (2,)), PARTITION) == 2
    assert leader_of(cluster(2, (2,), live=(1, 3)), PARTITION) is None
    assert leader_of(cluster(-1, ()), PARTITION) is None
