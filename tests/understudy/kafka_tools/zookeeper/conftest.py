"""The fixture of the tests of tools that work through ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.understudy.kafka_tools.zookeeper.bed import ZooKeeperBed, zookeeper_bed


@pytest.fixture
def bed() -> Iterator[ZooKeeperBed]:
    with zookeeper_bed() as bed:
        yield bed
