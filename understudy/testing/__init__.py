"""Tools for tests of a Kafka client: a small cluster of real brokers, its faults, and conditions to wait for.

Each name is loaded at its first use.

    from understudy.testing import ClusterUnderTest, controller_change

    with ClusterUnderTest(brokers=3, topics={"orders": 3}) as cluster:
        cluster.controller.kill()
        cluster.wait_for(controller_change())

`understudy.pytest_plugin` gives the same class to tests as the fixture `understudy_cluster`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.clusters.answers import AnswerHandle as AnswerHandle
    from understudy.clusters.cluster import ClusterError as ClusterError
    from understudy.clusters.cluster import Unsettled as Unsettled
    from understudy.clusters.cluster import Unsupported as Unsupported
    from understudy.clusters.cluster import WaitTimedOut as WaitTimedOut
    from understudy.clusters.processes.local_broker import LocalBroker as BrokerUnderTest  # noqa: F401  exported
    from understudy.clusters.testing.cluster_under_test import ClusterUnderTest as ClusterUnderTest
    from understudy.clusters.testing.conditions import Condition as Condition
    from understudy.clusters.testing.conditions import controller_change as controller_change
    from understudy.clusters.testing.conditions import isr as isr
    from understudy.clusters.testing.conditions import leader_change as leader_change
    from understudy.clusters.testing.conditions import point_reached as point_reached
    from understudy.clusters.testing.faults import RecordedFault as RecordedFault
    from understudy.testing.points import point as point
    from understudy.testing.process_tests.decorator import on_processes as on_processes
    from understudy.testing.simulated_tests.decorator import simulated as simulated

_MODULES = {
    "AnswerHandle": "understudy.clusters.answers",
    "BrokerUnderTest": "understudy.clusters.processes.local_broker",
    "ClusterError": "understudy.clusters.cluster",
    "ClusterUnderTest": "understudy.clusters.testing.cluster_under_test",
    "Condition": "understudy.clusters.testing.conditions",
    "RecordedFault": "understudy.clusters.testing.faults",
    "Unsettled": "understudy.clusters.cluster",
    "Unsupported": "understudy.clusters.cluster",
    "WaitTimedOut": "understudy.clusters.cluster",
    "controller_change": "understudy.clusters.testing.conditions",
    "isr": "understudy.clusters.testing.conditions",
    "leader_change": "understudy.clusters.testing.conditions",
    "on_processes": "understudy.testing.process_tests.decorator",
    "point": "understudy.testing.points",
    "point_reached": "understudy.clusters.testing.conditions",
    "simulated": "understudy.testing.simulated_tests.decorator",
}
_RENAMED = {"BrokerUnderTest": "LocalBroker"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), _RENAMED.get(name, name))
