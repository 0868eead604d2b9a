"""Tools for a cluster: run it, inject faults into it, check its history, compute metrics from its event logs.

`testbed` runs a cluster of processes on this machine, `simulator` runs the same code in virtual time; both implement
the protocols of `cluster`. `findings` lists what is wrong with a cluster, `checkers` check its history against
invariants, `replay` computes metrics from event logs with Spark, `page` shows a run in a browser, `notebook` in
Jupyter, `lessons` has what is taught with it, `cli` is the `understudy` command. Other projects
import these names from here; each is loaded at first use:

    from understudy import LocalCluster, SimulatedCluster
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.cluster import BrokerHandle as BrokerHandle
    from understudy.cluster import Cluster as Cluster
    from understudy.cluster import ClusterError as ClusterError
    from understudy.cluster import Unsettled as Unsettled
    from understudy.cluster import Unsupported as Unsupported
    from understudy.cluster import WaitTimedOut as WaitTimedOut
    from understudy.notebook import show as show
    from understudy.notebook import table as table
    from understudy.simulator.cluster import SimulatedCluster as SimulatedCluster
    from understudy.testbed.local_cluster import LocalCluster as LocalCluster

_MODULES = {
    "BrokerHandle": "understudy.cluster",
    "Cluster": "understudy.cluster",
    "ClusterError": "understudy.cluster",
    "LocalCluster": "understudy.testbed.local_cluster",
    "SimulatedCluster": "understudy.simulator.cluster",
    "Unsettled": "understudy.cluster",
    "Unsupported": "understudy.cluster",
    "WaitTimedOut": "understudy.cluster",
    "show": "understudy.notebook",
    "table": "understudy.notebook",
}

__all__ = [
    "BrokerHandle",
    "Cluster",
    "ClusterError",
    "LocalCluster",
    "SimulatedCluster",
    "Unsettled",
    "Unsupported",
    "WaitTimedOut",
    "show",
    "table",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
