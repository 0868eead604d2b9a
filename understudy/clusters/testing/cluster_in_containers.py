"""`ClusterInContainers`: a cluster in containers for the test of a Kafka client."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.clusters.containers.compose_cluster import ComposeCluster
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest


class ClusterInContainers(ClusterUnderTest):
    """Brokers 1 to `brokers` and a ZooKeeper, each in a container, in a network of their own; a context manager.

        with ClusterInContainers(brokers=3, topics={"orders": 3}) as cluster:
            ...  # a client on cluster.bootstrap, or one in a container of cluster.network on cluster.bootstrap_inside
            cluster.controller.kill()
            cluster.wait_for(controller_change())

    It has the methods of `ClusterUnderTest`, which acts on containers here: `kill` kills one, `pause` freezes one, and
    `isolate` takes one off the network, which refuses its traffic and does not hold it. Ports on this machine are free
    ones of the loopback interface. Everything is removed at the end, also if this program is killed. It needs the
    `docker` command with its compose plugin, an engine, and the image, which is not pulled.

    Args:
        image: None for the value of `UNDERSTUDY_IMAGE`, or `understudy`.
        The others are as in `ClusterUnderTest`.

    Raises:
        BadArguments: an argument has a value that it cannot have.
    """

    local: ComposeCluster

    def __init__(
        self,
        brokers: int = 3,
        *,
        racks: Sequence[str] | None = None,
        topics: Mapping[str, int] | None = None,
        session_timeout_ms: int = 3_000,
        properties: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        image: str | None = None,
    ) -> None:
        self._image = image
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        super().__init__(
            brokers,
            racks=racks,
            topics=topics,
            session_timeout_ms=session_timeout_ms,
            properties=properties,
            directory=directory,
        )

    def _new_cluster(self, directory: Path | None, zookeeper: EmbeddedZooKeeper | None) -> ComposeCluster:
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="understudy-run-")
            directory = Path(self._temporary.name)
        return ComposeCluster(
            self.arguments.brokers,
            name="test",
            racks=self.arguments.racks or None,
            directory=directory,
            session_timeout_ms=self.arguments.session_timeout_ms,
            properties=dict(self.arguments.properties),
            image=self._image,
        )

    @property
    def network(self) -> str:
        """The name of the containers' network, which another container can join."""
        return self.local.network

    @property
    def bootstrap_inside(self) -> str:
        """The `bootstrap.servers` of a client in that network: `broker-1:9092,…`."""
        return self.local.bootstrap_inside

    def undo_faults(self) -> None:
        """Connect every broker, disarm every point, resume every paused broker, and start every broker that is down."""
        self.local.heal_links()
        super().undo_faults()

    def close(self) -> None:
        """Remove the containers and their network at once. The run folder stays if `directory` was given."""
        super().close()
        self._remove_temporary()

    def __enter__(self) -> ClusterInContainers:
        try:
            super().__enter__()
        except BaseException:
            self._remove_temporary()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
