"""What all tests share: one real ZooKeeper per test process, started by the first test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running server. It is shared: take a chroot of your own, and leave the server as you found it."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server
