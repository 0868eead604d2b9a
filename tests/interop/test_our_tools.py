"""Our tools print the same with Apache Kafka's brokers as Kafka's own tools do: the recorded scripts, run with ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mixed import SESSION_TIMEOUT_MS
from tests.interop.test_tools import ALL, BROKERS, PROPERTIES, SCRIPTS, VERSIONS
from tests.interop.tool_script import ScriptRunner, differences, parse, restore
from tests.shares import SHARES, share_of
from tests.understudy.kafka_tools.our_tools import WITHOUT_OUR_TOOLS, OurTools
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = pytest.mark.xdist_group("our-tools-with-kafka")

FIRST = ("configs", "groups", "topics")
"""One script of each kind of requests for administration."""
OURS = (*FIRST, *sorted({*ALL} - WITHOUT_OUR_TOOLS - {*FIRST}))


def test_the_shares_of_scripts_have_the_first_and_all() -> None:
    assert SHARES["our-tools-with-kafka"].usual == len(FIRST)
    assert SHARES["our-tools-with-kafka"].whole == len(OURS)


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers of Kafka's."""
    with LocalCluster(
        len(BROKERS),
        kafka_brokers=dict.fromkeys(BROKERS, kafka),
        directory=tmp_path_factory.mktemp("our-tools"),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        properties=PROPERTIES,
    ) as cluster:
        yield cluster


@pytest.fixture
def runner(cluster: LocalCluster, tmp_path: Path) -> Iterator[ScriptRunner]:
    """The cluster without topics and with all brokers; it is restored after each script."""
    yield ScriptRunner(cluster, OurTools(cluster, tmp_path))
    restore(cluster)


@pytest.mark.spec("IO-17")
@pytest.mark.parametrize("script", OURS[: share_of("our-tools-with-kafka")])
def test_our_tools_print_with_kafka_what_kafkas_print(runner: ScriptRunner, script: str) -> None:
    # What differs on purpose does so with our brokers.
    lines = [line._replace(differs="") for line in parse((SCRIPTS / f"{script}.script").read_text())]
    found = list(differences(runner.run(lines)))
    assert not found, "\n\n".join(found)


@pytest.mark.spec("IO-17")
def test_our_tool_lists_the_apis_of_kafkas_brokers_as_kafkas_does(runner: ScriptRunner) -> None:
    [line] = parse(VERSIONS.read_text())
    [printed] = runner.run([line])
    # Kafka's tool prints the brokers in a random order.
    assert sorted(blocks(printed.text)) == sorted(blocks(line.printed))


def blocks(printed: str) -> list[str]:
    """The parts of the output of `kafka-broker-api-versions`, one for each broker."""
    return [f"<broker{block}".rstrip() for block in printed.split("<broker")[1:]]
