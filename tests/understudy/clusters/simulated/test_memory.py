"""A simulated run leaves nothing in memory, so that one process can run any number of seeds."""

from __future__ import annotations

import gc
import weakref

from understudy.clusters.simulated.cluster import SimulatedCluster


def test_a_finished_run_is_freed() -> None:
    cluster = SimulatedCluster(1, brokers=3)
    cluster.start()
    cluster.create_topic("orders", partitions=2, replication_factor=3)
    cluster.controller().kill()
    cluster.run_for(1_000)
    cluster.close()
    run = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert run() is None
