"""`ClusterInContainers` before it is started; `tests/compose/test_cluster_in_containers.py` starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.clusters.testing.arguments import BadArguments
from understudy.testing import ClusterUnderTest
from understudy.testing.containers import ClusterInContainers


def test_clients_in_the_network_reach_each_broker_by_its_name(tmp_path: Path) -> None:
    cluster = ClusterInContainers(2, directory=tmp_path)
    assert isinstance(cluster, ClusterUnderTest)
    assert cluster.bootstrap_inside == "broker-1:9092,broker-2:9092"
    assert cluster.network.endswith("_default")
    assert cluster.directory == tmp_path


def test_two_clusters_have_different_networks() -> None:
    clusters = [ClusterInContainers(1), ClusterInContainers(1)]
    assert len({cluster.network for cluster in clusters}) == 2
    for cluster in clusters:
        cluster.close()
        assert not cluster.directory.exists()


def test_arguments_are_checked_as_for_processes() -> None:
    with pytest.raises(BadArguments, match="brokers is a whole number from 1, not 0"):
        ClusterInContainers(0)
