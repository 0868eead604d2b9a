"""`ClusterPool`: the clusters of one pytest process, which share one ZooKeeper and may be shared by tests."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.testing.arguments import SESSION, ClusterArguments
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest


@dataclass(slots=True)
class Loan:
    """A cluster that a test uses.

    Attributes:
        keep: whether its run folder stays when the cluster has ended.
        failed: whether a test that used it has failed; such a cluster is not given to another test.
    """

    cluster: ClusterUnderTest
    arguments: ClusterArguments
    keep: bool
    failed: bool = False


class ClusterPool:
    """Starts clusters for tests, and ends them.

    Args:
        new_folder: makes an empty folder from a name.
        keep: whether all run folders stay.
    """

    def __init__(self, new_folder: Callable[[str], Path], *, keep: bool = False) -> None:
        self._new_folder = new_folder
        self._keep = keep
        self._zookeeper: EmbeddedZooKeeper | None = None
        self._ends = contextlib.ExitStack()
        self._shared: dict[ClusterArguments, Loan] = {}

    def lend(self, arguments: ClusterArguments, test: str) -> Loan:
        """Return a cluster for a test: a shared one without faults, or a new one.

        Args:
            test: the name of the test.

        Raises:
            ClusterError, ZooKeeperNotStarted: it cannot be started; the message ends with a log.
        """
        shared = self._shared.get(arguments)
        if shared is not None:
            try:
                shared.cluster.begin_test(test)
            except ClusterError:
                shared.failed = shared.keep = True
                self.give_back(shared)
            else:
                return shared
        loan = Loan(self._new_cluster(arguments, test), arguments, self._keep)
        if arguments.scope == SESSION:
            self._shared[arguments] = loan
        return loan

    def give_back(self, loan: Loan) -> None:
        """End the cluster of a test, unless it is shared and no test that used it has failed."""
        if self._shared.get(loan.arguments) is loan:
            if not loan.failed:
                return
            del self._shared[loan.arguments]
        loan.cluster.close()

    def remove_folder(self, loan: Loan) -> None:
        """Remove the run folder of a cluster that has ended, unless it is to be kept."""
        if not loan.keep and self._shared.get(loan.arguments) is not loan:
            shutil.rmtree(loan.cluster.directory, ignore_errors=True)

    def close(self) -> None:
        """End all clusters and ZooKeeper, and remove the run folders that are not kept."""
        loans = list(self._shared.values())
        self._shared.clear()
        for loan in loans:
            loan.cluster.close()
            self.remove_folder(loan)
        self._ends.close()

    def _new_cluster(self, arguments: ClusterArguments, test: str) -> ClusterUnderTest:
        cluster = ClusterUnderTest(
            arguments.brokers,
            racks=arguments.racks,
            topics=dict(arguments.topics),
            session_timeout_ms=arguments.session_timeout_ms,
            properties=dict(arguments.properties),
            proxied=arguments.proxied,
            directory=self._new_folder(test),
            zookeeper=self._shared_zookeeper(),
        )
        try:
            cluster.start(test)
        except BaseException:
            cluster.close()
            raise
        return cluster

    def _shared_zookeeper(self) -> EmbeddedZooKeeper:
        """The server of all clusters; the first cluster starts it."""
        if self._zookeeper is None:
            self._zookeeper = EmbeddedZooKeeper()
            self._ends.push(self._zookeeper)
        return self._zookeeper
