"""Our tools print what Kafka's print, on a cluster of ours: the recorded tool scripts run with our tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import test_tools as recorded_with_kafka
from tests.interop.mixed import OUR_SESSION_TIMEOUT_MS
from tests.interop.tool_script import ScriptRunner, differences, parse, restore
from tests.shares import at_night
from tests.understudy.kafka_tools.our_tools import WITHOUT_OUR_TOOLS, OurTools
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("our-tools")]

SCRIPTS = recorded_with_kafka.SCRIPTS
OF_KAFKAS_TOOLS = {"deletion", "elections", "reassignment"}
"""Long scripts that Kafka's tools run in each run of `make interop`."""


def scripts() -> list[object]:
    mark = at_night("`make interop` runs this script by Kafka's tools with the same brokers")
    names = sorted({*recorded_with_kafka.NAMES} - WITHOUT_OUR_TOOLS)
    return [pytest.param(name, marks=[mark] * (name in OF_KAFKAS_TOOLS)) for name in names]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers of ours."""
    with LocalCluster(
        len(recorded_with_kafka.BROKERS),
        directory=tmp_path_factory.mktemp("tools"),
        session_timeout_ms=OUR_SESSION_TIMEOUT_MS,
        properties=recorded_with_kafka.PROPERTIES,
    ) as cluster:
        yield cluster


@pytest.fixture
def runner(cluster: LocalCluster, tmp_path: Path) -> Iterator[ScriptRunner]:
    """The cluster without topics and with all brokers; it is restored after each script."""
    yield ScriptRunner(cluster, OurTools(cluster, tmp_path))
    restore(cluster)


def test_each_script_is_run_by_our_tools_or_by_kafkas_each_time() -> None:
    assert {*recorded_with_kafka.NAMES} - WITHOUT_OUR_TOOLS >= recorded_with_kafka.OF_OUR_TOOLS
    assert recorded_with_kafka.OF_OUR_TOOLS.isdisjoint(OF_KAFKAS_TOOLS)


@pytest.mark.parametrize("script", scripts())
def test_our_tools_print_what_kafkas_print(runner: ScriptRunner, script: str) -> None:
    found = list(differences(runner.run(parse((SCRIPTS / f"{script}.script").read_text()))))
    assert not found, "\n\n".join(found)
