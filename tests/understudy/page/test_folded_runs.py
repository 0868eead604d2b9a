"""The picture that is folded from the event logs of a simulated cluster is what the simulator knows to be true."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from tests.understudy.page.folding.fold import EventLogPicture, Life, fold_all
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.zk.client import Failure
from understudy.history.reading.reader import read_lines

VERBS = ("kill", "pause", "expire_session", "begin_stop", "isolate", "lose_power")


def folded(cluster: SimulatedCluster) -> EventLogPicture:
    return fold_all(read_lines({"run.jsonl": cluster.log_lines}).records)


def disturb(broker: SimulatedBroker, verb: str, draw: random.Random) -> None:
    """Do something to a broker, or end what was done to it."""
    if broker.is_paused:
        broker.resume()
    elif not broker.is_running:
        broker.begin_start()
    elif verb == "isolate" and draw.random() < 0.5:
        broker.heal()
    else:
        getattr(broker, verb)()


def require_truth(cluster: SimulatedCluster) -> None:
    picture = folded(cluster)
    znode = picture.zookeeper.controller
    assert (None if znode is None else znode.broker_id) == cluster.znodes.controller_id()
    assert picture.zookeeper.controller_epoch == cluster.znodes.controller_epoch()
    registered = {str(broker): found.epoch for broker, found in cluster.znodes.brokers().items()}
    assert {broker: found.epoch for broker, found in picture.zookeeper.ids.items()} == registered
    for broker in cluster.brokers:
        node = picture.broker(broker.id)
        if not broker.is_running:
            assert node.life is Life.DEAD
        elif broker.is_paused:
            assert node.life is Life.PAUSED
        elif str(broker.id) in registered:
            assert node.life in (Life.RUNNING, Life.STOPPING)
    states = {
        (partition.topic, partition.partition): (state.leader, state.isr, state.partition_epoch)
        for partition, state in cluster.znodes.states().items()
        if state is not None
    }
    assert {
        (topic, number): (state.leader, state.isr, state.partition_epoch)
        for topic, partitions in picture.partitions.items()
        for number, state in partitions.items()
    } == states


@pytest.mark.parametrize("seed", range(8))
def test_znodes_processes_and_partitions_are_those_of_the_cluster(seed: int) -> None:
    draw = random.Random(seed)
    with SimulatedCluster(seed, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=4, replication_factor=3)
        require_truth(cluster)
        for _ in range(8):
            # One broker is left alone: what ZooKeeper does while no node watches is in no record.
            disturb(draw.choice(cluster.brokers[:2]), draw.choice(VERBS), draw)
            # Longer than a session, so that the controller has noticed what has expired.
            cluster.run_for(30_000)
            require_truth(cluster)


def paths_below(cluster: SimulatedCluster, path: str = "") -> Iterator[str]:
    """The paths that the picture has in `others`: all but ZooKeeper's own, states of partitions with the znodes above
    them, ephemeral znodes, the controller epoch and numbered notifications."""
    for name in cluster.znodes.children(path or "/"):
        below = f"{path}/{name}"
        if not re.fullmatch(
            r"/zookeeper|/controller(_epoch)?|/brokers/ids/.+|/brokers/topics/[^/]+/partitions|.+/[a-z_]+\d+", below
        ):
            yield below
            yield from paths_below(cluster, below)


def require_true_paths(cluster: SimulatedCluster) -> None:
    zookeeper = folded(cluster).zookeeper
    assert set(zookeeper.others) == set(paths_below(cluster))
    assert not set(zookeeper.deleted) & {*zookeeper.others, *(f"/brokers/ids/{each}" for each in zookeeper.ids)}
    epoch = cluster.znodes._tree.get("/controller_epoch")
    assert not isinstance(epoch, Failure)
    assert zookeeper.controller_epoch_version == epoch.stat.version
    sessions = {f"/brokers/ids/{each}": znode.session for each, znode in zookeeper.ids.items()}
    if zookeeper.controller is not None:
        sessions["/controller"] = zookeeper.controller.session
    for path, session in sessions.items():
        found = cluster.znodes._tree.get(path)
        assert not isinstance(found, Failure)
        assert session == f"{found.stat.ephemeral_owner:#x}", path


def test_paths_versions_and_owners_are_those_of_the_simulated_zookeeper() -> None:
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=4, replication_factor=3)
        cluster.settle()
        require_true_paths(cluster)
        first = folded(cluster)
        cluster.depose()
        assert folded(cluster).zookeeper.deleted["/controller"] == first.records + 1
        cluster.settle()
        require_true_paths(cluster)
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.run_for(20_000)
        require_true_paths(cluster)
        after = folded(cluster)
        assert not after.partitions
        assert {"/brokers/topics/orders", "/admin/delete_topics/orders"} <= set(after.zookeeper.deleted)
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        cluster.controller().kill()
        cluster.run_for(30_000)
        require_true_paths(cluster)
        created = folded(cluster).zookeeper.others["/brokers/topics/orders"].created
        assert created is not None
        assert created > after.records


def held_in_channels(broker: SimulatedBroker) -> dict[int, int]:
    """How many requests a broker's channels hold, by receiver; those that the channels have taken not counted."""
    if not broker.is_running or broker.instance is None or broker.instance._services is None:
        return {}
    term = broker.instance.controller._term
    return {} if term is None else {int(to): each.queue_size for to, each in term.channels.channels().items()}


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_requests_that_wait_are_those_in_the_channels(seed: int) -> None:
    draw = random.Random(seed)
    longest = 0
    with SimulatedCluster(seed, brokers=3) as cluster:
        cluster.start()
        for number in range(16):
            if (controller := cluster.controller_id()) is not None:
                client = cluster.admin.with_bootstrap(f"broker-{controller}:{PORT}")
                cluster.begin(client.create_topic(f"orders-{number}", assignment={0: [3, 1, 2]}))
            if draw.random() < 0.3:
                disturb(draw.choice(cluster.brokers[:2]), draw.choice(("kill", "pause", "isolate")), draw)
            cluster.run_for(draw.choice((1, 20, 700, 700, 10_000)))
            picture = folded(cluster)
            for broker in cluster.brokers:
                channels, held = picture.broker(broker.id).channels, held_in_channels(broker)
                assert channels.keys() == held.keys(), broker.name
                for to, channel in channels.items():
                    is_taken = channel.in_flight is None and channel.unanswered is None and channel.waiting > 0
                    assert channel.waiting == held[to] + is_taken, f"{broker.name} to broker {to}"
                    longest = max(longest, channel.waiting)
    assert longest > 1


def test_a_deposed_controller_owns_no_znode_any_more() -> None:
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        cluster.depose()
        picture = folded(cluster)
        assert picture.zookeeper.controller is None
        assert picture.controller is not None
        assert picture.controller.is_gone
        cluster.settle()
        require_truth(cluster)


def test_a_paused_controller_keeps_its_term_and_has_lost_its_znodes() -> None:
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        zombie = cluster.controller()
        zombie.pause()
        cluster.run_for(30_000)
        picture = folded(cluster)
        assert picture.controller is not None
        assert picture.controller.node != zombie.name
        assert str(zombie.id) not in picture.zookeeper.ids
        node = picture.broker(zombie.id)
        assert node.term is not None
        assert node.term.epoch < picture.controller.epoch
        assert node.silent_since_us is not None
        zombie.resume()
        cluster.settle()
        node = folded(cluster).broker(zombie.id)
        assert (node.term, node.channels, node.silent_since_us) == (None, {}, None)
