"""`ClusterPool`: the brokers of all its clusters are forks of one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.clusters.processes import linux
from understudy.clusters.processes.broker_forks import can_fork_brokers
from understudy.clusters.testing.arguments import ClusterArguments
from understudy.clusters.testing.cluster_pool import ClusterPool
from understudy.testing import ClusterUnderTest, isr

pytestmark = [
    pytest.mark.skipif(not can_fork_brokers(), reason="this system has no pidfds"),
]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ClusterPool]:
    def new_folder(test: str) -> Path:
        folder = tmp_path / test
        folder.mkdir()
        return folder

    found = ClusterPool(new_folder)
    yield found
    found.close()


def pids(cluster: ClusterUnderTest) -> list[int]:
    return [broker.process.process.pid for broker in cluster.brokers if broker.process.process]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_template_that_has_ended_is_replaced(pool: ClusterPool) -> None:
    arguments = ClusterArguments.of({"brokers": 1, "scope": "session"})
    (first,) = pids(pool.lend(arguments, "first").cluster)
    template = parent(first)
    os.kill(template, signal.SIGKILL)
    os.waitid(os.P_PID, template, os.WEXITED | os.WNOWAIT)  # a fork that it has begun could still be served
    (second,) = pids(pool.lend(arguments, "second").cluster)
    assert parent(second) not in (template, os.getpid())


def test_the_brokers_of_all_clusters_are_forks_of_one_process(pool: ClusterPool) -> None:
    first = pool.lend(ClusterArguments.of({"brokers": 2, "topics": {"orders": 1}}), "first")
    second = pool.lend(ClusterArguments.of({"brokers": 1, "proxied": True}), "second")
    broker = first.cluster.leader("orders")
    broker.kill()
    broker.start()  # also a fork
    first.cluster.wait_for(isr("orders", size=2))
    forks = pids(first.cluster) + pids(second.cluster)
    assert len(forks) == 3
    assert len({parent(pid) for pid in forks}) == 1
    pool.give_back(first)
    assert [linux.start_time(pid) for pid in pids(first.cluster)] == [None, None]
    pool.give_back(second)
    assert [linux.start_time(pid) for pid in pids(second.cluster)] == [None]
