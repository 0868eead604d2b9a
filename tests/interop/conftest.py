"""Fixtures of the tests with Apache Kafka, which `make interop` runs. They are skipped if Kafka cannot be fetched.

`REQUIRE_MAVEN=1` turns the skip into a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from devtools.judges.class_archive import with_class_archive
from devtools.judges.maven import kafka_libs
from tests.interop.mixed import Complaints
from tests.interop.tools import Tools
from understudy.clusters.processes.apache_kafka import SMALL_JVM, ApacheKafka
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.clusters.processes.local_cluster import LocalCluster

HERE = Path(__file__).parent
TIMEOUT_S = 900
"""The timeout of a test with the start of its module's cluster: four JVMs and many elections on a busy machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-kafka", action="store_true", help="write what the tools print with Kafka into the scripts"
    )
    parser.addoption("--record-golden", action="store_true", help="write what Kafka does into tests/golden")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "kafka" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def kafka() -> ApacheKafka:
    """Apache Kafka 3.9.1 and its tools, on the Java that ZooKeeper runs on, with an archive of its classes."""
    try:
        return with_class_archive(ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM))
    except NotFetched as why:
        skip_or_fail(why)


def skip_or_fail(why: NotFetched) -> NoReturn:
    """Skip the test with the reason; fail it if `REQUIRE_MAVEN=1`."""
    if os.environ.get("REQUIRE_MAVEN") == "1":
        pytest.fail(f"REQUIRE_MAVEN=1, but {why}")
    pytest.skip(f"interop tests: {why}")


@pytest.fixture
def complaints(cluster: LocalCluster) -> Iterator[Complaints]:
    """Fail a test after which Kafka's brokers have logged errors. The `cluster` is the fixture of the test's module."""
    found = Complaints(cluster)
    yield found
    found.check()


@pytest.fixture
def tools(kafka: ApacheKafka, tmp_path: Path) -> Tools:
    """Kafka's command-line tools, in the folder of the test."""
    return Tools(kafka, tmp_path)
