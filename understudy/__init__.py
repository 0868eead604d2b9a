"""A cluster of Kafka brokers in ZooKeeper mode, and tools that act on it, watch it and judge it.

`clusters` runs it as processes, in containers or in virtual time; `trials` does things to it and reaches a verdict;
`checks` has the invariants; `history` reads event logs and computes metrics from them, `spark` has Spark do that for
whole runs side by side, and reads and writes the lake's tables; `page` shows a run in a browser, `notebook` in Jupyter;
`kafka_tools` has Kafka's command-line tools; `cli` is the `understudy` command and the program of the image. `brokers`,
`controller` and `foundation` are links to the folders in which the brokers' own code is. Other projects import these
names from here; each is loaded at first use:

    from understudy import LocalCluster, SimulatedCluster
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.clusters.cluster import BrokerHandle as BrokerHandle
    from understudy.clusters.cluster import Cluster as Cluster
    from understudy.clusters.cluster import ClusterError as ClusterError
    from understudy.clusters.cluster import Unsettled as Unsettled
    from understudy.clusters.cluster import Unsupported as Unsupported
    from understudy.clusters.cluster import WaitTimedOut as WaitTimedOut
    from understudy.clusters.processes.local_cluster import LocalCluster as LocalCluster
    from understudy.clusters.simulated.cluster import SimulatedCluster as SimulatedCluster
    from understudy.notebook import plot as plot
    from understudy.notebook import show as show
    from understudy.notebook import table as table

_MODULES = {
    "BrokerHandle": "understudy.clusters.cluster",
    "Cluster": "understudy.clusters.cluster",
    "ClusterError": "understudy.clusters.cluster",
    "LocalCluster": "understudy.clusters.processes.local_cluster",
    "SimulatedCluster": "understudy.clusters.simulated.cluster",
    "Unsettled": "understudy.clusters.cluster",
    "Unsupported": "understudy.clusters.cluster",
    "WaitTimedOut": "understudy.clusters.cluster",
    "plot": "understudy.notebook",
    "show": "understudy.notebook",
    "table": "understudy.notebook",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
