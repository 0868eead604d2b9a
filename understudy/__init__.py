"""What people do with the cluster: run it, break it, watch it, replay it.

`testbed` is the real world on one machine, `simulator` another world for the same code, `checkers` what must always
hold, `replay` Spark over event logs, `cli` the `understudy` command. What tests of other projects import is exported
here, and loaded when asked for:

    from understudy import LocalCluster, SimulatedCluster
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.simulator.cluster import SimulatedCluster as SimulatedCluster
    from understudy.testbed.local_cluster import LocalCluster as LocalCluster

_HOMES = {"LocalCluster": "understudy.testbed.local_cluster", "SimulatedCluster": "understudy.simulator.cluster"}

__all__ = ["LocalCluster", "SimulatedCluster"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
