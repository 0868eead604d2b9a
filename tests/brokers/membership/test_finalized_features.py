"""What a broker knows of `/feature`, and what it dies of."""

from __future__ import annotations

import pytest

from brokers.membership.finalized_features import IncompatibleFeatures
from foundation.cluster.features import FinalizedFeatures
from foundation.zk.admin_znodes import Features, FeatureZNode
from foundation.zk.client import Delete, SetData
from tests.controller.harness import ControllerHarness
from understudy.simulator.cluster import SimulatedCluster


def write(stage: ControllerHarness, data: bytes) -> None:
    stage.operator.run(stage.operator.client.write(SetData("/feature", data)))
    stage.settle()


@pytest.mark.spec("AP-2", "ZN-7")
def test_the_cache_follows_the_znode() -> None:
    with ControllerHarness(electable=(0, 1), brokers=()) as stage:
        stage.start()
        caches = [stage.broker(broker).features for broker in (0, 1)]

        def known() -> list[FinalizedFeatures | None]:
            (one, other) = (cache.features for cache in caches)
            assert one == other, "the broker that is not controller follows it, too"
            return [one]

        none = FeatureZNode.encode(Features(2, True, {}))
        assert known() == [FinalizedFeatures({}, 0)]
        write(stage, none)
        assert known() == [FinalizedFeatures({}, 1)]
        write(stage, FeatureZNode.encode(Features(2, False, {})))
        assert known() == [None], "disabled"
        write(stage, none)
        assert known() == [FinalizedFeatures({}, 3)]
        write(stage, b"what an operator's script left")
        assert known() == [None], "unreadable"
        stage.operator.run(stage.operator.client.write(Delete("/feature")))
        stage.settle()
        assert known() == [None]
        stage.write_znode("/feature", none)
        assert known() == [FinalizedFeatures({}, 0)], "made anew, its epoch begins anew; Kafka's brokers exit"


@pytest.mark.spec("AP-2")
def test_another_session_reads_what_changed_while_there_was_none() -> None:
    with ControllerHarness(electable=(0, 1), brokers=()) as stage:
        stage.start()
        stage.zookeeper.hold("broker-1")
        write(stage, FeatureZNode.encode(Features(2, True, {})))
        assert stage.broker(1).features.features == FinalizedFeatures({}, 0)
        stage.zookeeper.expire(stage.broker(1).client.session_id)
        stage.zookeeper.heal("broker-1")
        stage.settle(8_000)
        assert stage.broker(1).features.features == FinalizedFeatures({}, 1)
        write(stage, FeatureZNode.encode(Features(2, True, {})))
        assert stage.broker(1).features.features == FinalizedFeatures({}, 2), "and watches it"


@pytest.mark.spec("ZN-7")
def test_a_finalized_feature_ends_every_broker_and_lets_none_start() -> None:
    with SimulatedCluster(11, brokers=2) as cluster:
        cluster.start()
        cluster.zookeeper.operate([SetData("/feature", FeatureZNode.encode(Features(2, True, {"f": 3})))])
        cluster.run_for(500)
        assert [end.node for end in cluster.exits] == ["broker-1", "broker-2"]
        (cause, _) = (end.error.__cause__ for end in cluster.exits if end.error is not None)
        assert isinstance(cause, IncompatibleFeatures)
        assert str(cause) == (
            "/feature at version 1 is more than this broker can work with: f is finalized at 3 and not supported; "
            "brokers in ZooKeeper mode support no feature, so remove them from the znode"
        )
        cluster.run_for(10_000)
        assert isinstance(cluster.exits[-1].error, IncompatibleFeatures), "and not registered first"
        assert cluster.session_of(1) is None
        cluster.zookeeper.operate([SetData("/feature", FeatureZNode.encode(Features(2, True, {})))])
        cluster.settle()
