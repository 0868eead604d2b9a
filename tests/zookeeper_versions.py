"""Servers of other versions of Apache ZooKeeper than our own, for tests that Maven fetches them for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from devtools.judges.maven import zookeeper_jars
from tests.interop.conftest import skip_or_fail
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.kafka_jars import NotFetched


@contextlib.contextmanager
def running(version: str, directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of this version of ZooKeeper. Skips the test if Maven is missing; `REQUIRE_MAVEN=1` fails it."""
    try:
        jars = zookeeper_jars(version)
    except NotFetched as why:
        skip_or_fail(why)
    with EmbeddedZooKeeper(directory, jars=jars) as server:
        yield server
