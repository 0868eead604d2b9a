"""Apache Kafka's own tools print the same with our cluster as with one of Kafka's in the same state.

What they print with Kafka stands in the scenes: `make interop ARGS="-k tools --record-kafka"` plays them on three
brokers of Apache Kafka and writes it there; review the diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mixed import SESSION_TIMEOUT_MS, operator
from tests.interop.scene import GOING_ON, Stage, differences, parse, recorded
from tests.interop.tools import Tools
from understudy.testbed.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

pytestmark = pytest.mark.xdist_group("tools")

SCENES = Path(__file__).parent / "scenes"
VERSIONS = SCENES / "api-versions.scene"
BROKERS = (1, 2, 3)
# Alike for brokers of both kinds, so that they describe themselves alike.
PROPERTIES = {"auto.leader.rebalance.enable": "false", "default.replication.factor": "1", **SMALL_BROKER}


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest) -> bool:
    """Whether Kafka plays, to be written down."""
    return bool(request.config.getoption("--record-kafka", default=False))


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, recording: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers: ours, or Kafka's to record."""
    with LocalCluster(
        len(BROKERS),
        kafka_brokers=dict.fromkeys(BROKERS, kafka) if recording else None,
        directory=tmp_path_factory.mktemp("tools"),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        properties=PROPERTIES,
    ) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: LocalCluster, tools: Tools) -> Iterator[Stage]:
    """The cluster without any topic, and with all its brokers."""
    yield Stage(cluster, tools)
    for broker in cluster.brokers:
        if not broker.is_running:
            broker.start()
    with operator(cluster) as zookeeper:
        for topic in zookeeper.get_children("/brokers/topics"):
            zookeeper.ensure_path(f"/admin/delete_topics/{topic}")
        cluster.wait_until(lambda: not GOING_ON["deletion"](zookeeper), "the scene's topics are gone")


@pytest.mark.spec("IO-16", "IO-17")
@pytest.mark.parametrize("scene", sorted(path.stem for path in SCENES.glob("*.scene") if path != VERSIONS))
def test_tools_print_what_they_print_with_kafka(stage: Stage, scene: str, recording: bool) -> None:
    path = SCENES / f"{scene}.scene"
    printed = stage.play(parse(path.read_text()))
    if recording:
        path.write_text(recorded(path.read_text(), printed))
        return
    found = list(differences(printed))
    assert not found, "\n\n".join(found)


@pytest.mark.spec("IO-16", "AP-1")
def test_every_version_we_serve_is_one_that_kafka_serves(stage: Stage, recording: bool) -> None:
    [line] = parse(VERSIONS.read_text())
    [printed] = stage.play([line])
    if recording:
        VERSIONS.write_text(recorded(VERSIONS.read_text(), [printed]))
        return
    kafkas, ours = served(line.printed), served(printed.text)
    assert set(ours) == {f"<broker {broker}>" for broker in BROKERS} == set(kafkas)
    for broker, versions in ours.items():
        assert versions, f"{broker} serves nothing"
        assert [each for each in versions if each not in kafkas[broker]] == []


def served(printed: str) -> dict[str, list[str]]:
    """What `kafka-broker-api-versions` printed: lines such as `Metadata(3): 0 to 12 [usable: 12]`, by broker."""
    brokers: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("<broker"):
            brokers[line.partition(" (")[0]] = []
        elif ": " in line and "UNSUPPORTED" not in line:
            brokers[list(brokers)[-1]].append(line.strip(" \t,"))
    return brokers
