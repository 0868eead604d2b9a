"""Apache Kafka's own tools print the same with our cluster as with one of Kafka's in the same state."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.mixed import SESSION_TIMEOUT_MS
from tests.interop.scene import Stage, differences, parse
from tests.interop.tools import Tools
from understudy.testbed.apache_kafka import ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("tools"), pytest.mark.timeout(600)]

SCENES = Path(__file__).parent / "scenes"
PROPERTIES = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


@pytest.fixture(scope="module")
def stages(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    """Three brokers of Kafka's, and three of ours."""
    folder = tmp_path_factory.mktemp("tools")
    settings = {"session_timeout_ms": SESSION_TIMEOUT_MS, "properties": PROPERTIES}
    kafkas = LocalCluster(3, kafka_brokers=dict.fromkeys((1, 2, 3), kafka), directory=folder / "kafkas", **settings)
    ours = LocalCluster(3, directory=folder / "ours", **settings)
    with kafkas, ours:
        for name in ("of-kafkas", "of-ours"):
            (folder / name).mkdir()
        yield Stage(kafkas, Tools(kafka, folder / "of-kafkas")), Stage(ours, Tools(kafka, folder / "of-ours"))


@pytest.mark.spec("IO-16", "IO-17")
@pytest.mark.parametrize("scene", sorted(path.stem for path in SCENES.glob("*.scene")))
def test_tools_print_what_they_print_with_kafka(stages: tuple[Stage, Stage], scene: str) -> None:
    lines = parse((SCENES / f"{scene}.scene").read_text())
    with ThreadPoolExecutor(2) as pool:
        kafkas, ours = pool.map(lambda stage: stage.play(lines), stages)
    for stage, printed in zip(stages, (kafkas, ours), strict=True):
        (stage.tools.directory / f"{scene}.txt").write_text("\n\n".join(f"{line}\n{text}" for line, text in printed))
    found = list(differences(kafkas, ours))
    assert not found, "\n\n".join(found)


@pytest.mark.spec("IO-16", "AP-1")
def test_every_version_we_serve_is_one_that_kafka_serves(stages: tuple[Stage, Stage]) -> None:
    kafkas, ours = (served(stage.play(parse("kafka-broker-api-versions"))[0].text) for stage in stages)
    assert set(ours) == {"<broker 1>", "<broker 2>", "<broker 3>"} == set(kafkas)
    for broker, versions in ours.items():
        assert versions, f"{broker} serves nothing"
        assert [line for line in versions if line not in kafkas[broker]] == []


def served(printed: str) -> dict[str, list[str]]:
    """What `kafka-broker-api-versions` printed: lines such as `Metadata(3): 0 to 12 [usable: 12]`, by broker."""
    brokers: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("<broker"):
            brokers[line.partition(" (")[0]] = []
        elif ": " in line and "UNSUPPORTED" not in line:
            brokers[list(brokers)[-1]].append(line.strip(" \t,"))
    return brokers
