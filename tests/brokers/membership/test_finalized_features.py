"""Tests of a broker's cache of the `/feature` znode; a finalized feature stops the broker."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness
from understudy.brokers.membership.finalized_features import IncompatibleFeatures
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.features import FinalizedFeatures
from understudy.foundation.zk.admin_znodes import Features, FeatureZNode
from understudy.foundation.zk.client import Delete, SetData


def write(harness: ControllerHarness, data: bytes) -> None:
    harness.operator.run(harness.operator.client.write(SetData("/feature", data)))
    harness.settle()


@pytest.mark.spec("AP-2", "ZN-7")
def test_the_cache_follows_the_znode() -> None:
    with ControllerHarness(electable=(0, 1), brokers=()) as harness:
        harness.start()
        caches = [harness.broker(broker).features for broker in (0, 1)]

        def known() -> list[FinalizedFeatures | None]:
            (one, other) = (cache.features for cache in caches)
            assert one == other, "so does the broker that is not controller"
            return [one]

        none = FeatureZNode.encode(Features(2, True, {}))
        assert known() == [FinalizedFeatures({}, 0)]
        write(harness, none)
        assert known() == [FinalizedFeatures({}, 1)]
        write(harness, FeatureZNode.encode(Features(2, False, {})))
        assert known() == [None], "disabled"
        write(harness, none)
        assert known() == [FinalizedFeatures({}, 3)]
        write(harness, b"what an operator's script left")
        assert known() == [None], "unreadable"
        harness.operator.run(harness.operator.client.write(Delete("/feature")))
        harness.settle()
        assert known() == [None]
        harness.write_znode("/feature", none)
        assert known() == [FinalizedFeatures({}, 0)], "made anew, its epoch begins anew; Kafka's brokers exit"


@pytest.mark.spec("AP-2")
def test_next_session_reads_changes_made_without_a_session() -> None:
    with ControllerHarness(electable=(0, 1), brokers=()) as harness:
        harness.start()
        harness.zookeeper.hold("broker-1")
        write(harness, FeatureZNode.encode(Features(2, True, {})))
        assert harness.broker(1).features.features == FinalizedFeatures({}, 0)
        harness.zookeeper.expire(harness.broker(1).client.session_id)
        harness.zookeeper.heal("broker-1")
        harness.settle(8_000)
        assert harness.broker(1).features.features == FinalizedFeatures({}, 1)
        write(harness, FeatureZNode.encode(Features(2, True, {})))
        assert harness.broker(1).features.features == FinalizedFeatures({}, 2), "and watches it"


@pytest.mark.spec("ZN-7")
def test_finalized_feature_stops_every_broker_and_prevents_its_start() -> None:
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
        assert cluster.broker(1).session_id is None
        cluster.zookeeper.operate([SetData("/feature", FeatureZNode.encode(Features(2, True, {})))])
        cluster.settle()
