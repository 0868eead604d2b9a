"""The scenes: changes that are made to a cluster while the drivers run, and undone again.

Each notes the moment of every change with `mark`, just before the change, and returns when the last change is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster

SESSION_TIMEOUT_MS = 4_000
ZOOKEEPER_AWAY_S = 10.0
TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0

Mark: TypeAlias = Callable[[], None]


class Scene(NamedTuple):
    """A fault with its end.

    Attributes:
        play: injects it and undoes it; its arguments are the cluster, a topic, and what notes the time of a change.
        needs_proxy: whether it holds the traffic of a broker, which is not possible with brokers of Apache Kafka.
    """

    name: str
    play: Callable[[LocalCluster, str, Mark], None]
    needs_proxy: bool = False


def controller_deposed(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    """Delete `/controller`; any broker may win the election, also the same one, with another epoch."""
    epoch = cluster.picture().controller_epoch
    mark()
    cluster.controller().depose()
    cluster.wait_until(
        lambda: cluster.controller_id() is not None and cluster.picture().controller_epoch > epoch,
        "a controller was elected",
        TIMEOUT_S,
    )


def controller_killed(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    victim = cluster.controller()
    mark()
    victim.kill()
    cluster.wait_until(
        lambda: cluster.controller_id() not in (None, victim.id), "another broker is controller", TIMEOUT_S
    )
    mark()
    victim.start()


def leader_killed(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    _until_another_leads(cluster, topic, mark, LocalBroker.kill, LocalBroker.start)


def leader_paused(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    _until_another_leads(cluster, topic, mark, LocalBroker.pause, LocalBroker.resume)


def leader_isolated(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    _until_another_leads(cluster, topic, mark, LocalBroker.isolate, LocalBroker.heal)


def rolling_restart(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    """Stop each broker by a controlled shutdown and start it again, the next one when every ISR is full."""
    for broker in cluster.brokers:
        mark()
        broker.stop(STOP_TIMEOUT_S)
        broker.start()
        cluster.settle(timeout_s=TIMEOUT_S)


def zookeeper_away(cluster: LocalCluster, topic: str, mark: Mark) -> None:
    """Stop ZooKeeper and start it again. It expires no session meanwhile."""
    zookeeper = cluster.embedded_zookeeper
    assert zookeeper is not None
    cluster.record_fault("stop", "zookeeper")
    mark()
    zookeeper.stop()
    time.sleep(ZOOKEEPER_AWAY_S)
    cluster.record_fault("start", "zookeeper")
    mark()
    zookeeper.start()


def _until_another_leads(
    cluster: LocalCluster,
    topic: str,
    mark: Mark,
    inject: Callable[[LocalBroker], None],
    undo: Callable[[LocalBroker], None],
) -> None:
    """Inject a fault into the leader, and undo it when its session has expired and another broker leads."""
    victim = cluster.leader(topic, 0)
    mark()
    inject(victim)
    cluster.wait_until(
        lambda: victim.id not in cluster.view.brokers() and cluster.leader_id(topic, 0) not in (None, -1, victim.id),
        f"the session of {victim.name} has expired, and another broker leads",
        TIMEOUT_S,
    )
    mark()
    undo(victim)


SCENES = (
    Scene("controller deposed", controller_deposed),
    Scene("controller killed", controller_killed),
    Scene("leader killed", leader_killed),
    Scene("leader paused past its session", leader_paused),
    Scene("leader isolated past its session", leader_isolated, needs_proxy=True),
    Scene("rolling restart", rolling_restart),
    Scene("ZooKeeper away for 10 s", zookeeper_away),
)
