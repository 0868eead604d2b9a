"""Apache Kafka's own tools print the same with our cluster as with one of Kafka's in the same state.

Their output with Kafka is recorded in the tool scripts. `make interop ARGS="-k tools --record-kafka"` runs them on
three brokers of Apache Kafka and writes the output; review the diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from devtools.judges.maven import old_kafka_libs
from tests.interop.conftest import skip_or_fail
from tests.interop.mixed import OUR_SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS
from tests.interop.tool_script import ScriptRunner, differences, parse, recorded, restore
from tests.interop.tools import SCALA, Tools
from tests.shares import SHARES, at_night, share_of
from understudy.brokers.apis.no_transactions import NO_TRANSACTIONS
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = pytest.mark.xdist_group("tools")

SCRIPTS = Path(__file__).parent / "tool_scripts"
VERSIONS = SCRIPTS / "api-versions.script"
ALL = sorted(str(path.relative_to(SCRIPTS).with_suffix("")) for path in SCRIPTS.rglob("*.script") if path != VERSIONS)
"""The names of the scripts; scripts of tools of an older release are in a folder with its version."""
OLDER = [name for name in reversed(ALL) if "/" in name]
NAMES = [name for name in ALL if name not in OLDER[share_of("older-tools") :]]
"""The scripts that a run beside Apache Kafka takes."""
OF_OUR_TOOLS = {
    "arguments",
    "configs",
    "console",
    "dump-log",
    "members",
    "offsets",
    "performance",
    "resets",
    "topics",
}
"""Long scripts that our tools run in each run of the tests; Kafka's start dozens of processes of Java."""
BROKERS = (1, 2, 3)
# The same for our and Kafka's brokers, because the tools print the brokers' configs.
PROPERTIES = {"auto.leader.rebalance.enable": "false", "default.replication.factor": "1", **SMALL_BROKER}


@pytest.fixture(scope="module")
def recording(request: pytest.FixtureRequest) -> bool:
    """Whether the scripts run on Kafka, to record the output."""
    return bool(request.config.getoption("--record-kafka", default=False))


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, recording: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers of ours, or of Kafka's if the output is recorded."""
    with LocalCluster(
        len(BROKERS),
        kafka_brokers=dict.fromkeys(BROKERS, kafka) if recording else None,
        directory=tmp_path_factory.mktemp("tools"),
        session_timeout_ms=SESSION_TIMEOUT_MS if recording else OUR_SESSION_TIMEOUT_MS,
        properties=PROPERTIES,
    ) as cluster:
        yield cluster


@pytest.fixture
def runner(cluster: LocalCluster, tools: Tools) -> Iterator[ScriptRunner]:
    """The cluster without topics and with all brokers; it is restored after each script."""
    yield ScriptRunner(cluster, tools)
    restore(cluster)


def test_the_share_of_nightly_runs_has_every_older_release() -> None:
    assert SHARES["older-tools"].whole == len(OLDER)


@pytest.mark.spec("IO-16", "IO-17")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(name, marks=[at_night("our tools run this script with the same brokers")] * (name in OF_OUR_TOOLS))
        for name in NAMES
    ],
)
def test_tools_print_what_they_print_with_kafka(
    runner: ScriptRunner, tools: Tools, script: str, recording: bool
) -> None:
    path = SCRIPTS / f"{script}.script"
    if "/" in script:
        runner = replace(runner, tools=of_release(tools, path.parent.name))
    printed = runner.run(parse(path.read_text()))
    if recording:
        path.write_text(recorded(path.read_text(), printed))
        return
    found = list(differences(printed))
    assert not found, "\n\n".join(found)


@pytest.mark.spec("IO-16", "AP-1")
def test_our_brokers_serve_the_versions_that_kafka_serves(runner: ScriptRunner, recording: bool) -> None:
    [line] = parse(VERSIONS.read_text())
    [printed] = runner.run([line])
    if recording:
        VERSIONS.write_text(recorded(VERSIONS.read_text(), [printed]))
        return
    kafkas, ours = served(line.printed), served(printed.text)
    assert set(ours) == {f"<broker {broker}>" for broker in BROKERS} == set(kafkas)
    assert all(ours.values()), "a broker serves nothing"
    assert ours == kafkas


def test_a_transactional_producer_of_kafka_ends_with_our_sentence(
    runner: ScriptRunner, cluster: LocalCluster, tools: Tools, recording: bool
) -> None:
    """The runner deletes the topic."""
    if recording:
        pytest.skip("--record-kafka: Kafka's brokers coordinate transactions")
    tools.succeed(f"kafka-topics --create --topic paid --bootstrap-server {cluster.bootstrap}")
    outcome = tools.run(
        "kafka-producer-perf-test --topic paid --num-records 1 --record-size 1 --throughput -1 --transactional-id t "
        f"--transaction-duration-ms 1000 --producer-props bootstrap.servers={cluster.bootstrap}"
    )
    assert outcome.rc != 0
    assert NO_TRANSACTIONS in outcome.stderr
    topics = tools.succeed(f"kafka-topics --list --bootstrap-server {cluster.bootstrap}").split()
    assert topics == ["paid"]


def of_release(tools: Tools, version: str) -> Tools:
    """The tools of an older release; skips the test if they cannot be fetched."""
    try:
        return tools.of_release(version, old_kafka_libs(version, SCALA[version]))
    except NotFetched as why:
        skip_or_fail(why)


def served(printed: str) -> dict[str, list[str]]:
    """The APIs of each broker in the output of `kafka-broker-api-versions`: `Metadata(3): 0 to 12 [usable: 12]` …"""
    brokers: dict[str, list[str]] = {}
    for line in printed.splitlines():
        if line.startswith("<broker"):
            brokers[line.partition(" (")[0]] = []
        elif ": " in line and "UNSUPPORTED" not in line:
            brokers[list(brokers)[-1]].append(line.strip(" \t,"))
    return brokers
