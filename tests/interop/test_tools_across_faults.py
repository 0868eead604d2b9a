"""Apache's console and performance tools run against our brokers while the controller or a leader is killed.

Consumers read by assignment. `kafka-consumer-perf-test` is left out: it reads in a group only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.durability.across_faults import inject, recover
from tests.interop.steps import create
from tests.interop.test_producers import ends, errors, wait_for_records
from tests.interop.tools import PATIENT, Tools
from tests.shares import at_night
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess

pytestmark = pytest.mark.xdist_group("tools across faults")

TYPED = 300
"""How many lines the console producer sends before the fault, and how many after it."""
MEASURED = 10_000
THROUGHPUT = 500
"""The producer perf test runs for twenty seconds, in which the session of a killed broker ends."""
TIMEOUT_S = 240.0


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("tools-across-faults") / "run"
    properties = {"auto.leader.rebalance.enable": "false"}
    with LocalCluster(3, directory=directory, session_timeout_ms=4_000, properties=properties) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "fault",
    [
        "kill the controller",
        pytest.param("kill the leader", marks=at_night("Kafka's producers and consumers lose a leader each time")),
    ],
)
def test_apaches_tools_work_across_a_fault(cluster: LocalCluster, tools: Tools, fault: str) -> None:
    """What the idempotent producers of both tools send is in the log once, in order, and read while it is written."""
    name = fault.replace(" ", "-")
    typed, measured = f"typed-{name}", f"measured-{name}"
    controller = cluster.controller()
    followers = [broker.id for broker in cluster.brokers if broker.id != controller.id]
    replicas = ":".join(map(str, [*followers, controller.id]))
    for topic in (typed, measured):
        create(tools, cluster, topic, f"--replica-assignment {replicas} --config min.insync.replicas=2")

    logs = {tool: tools.directory / f"{tool}.log" for tool in ("typing", "measuring", "reading")}
    line = f"kafka-console-consumer --bootstrap-server {cluster.bootstrap} --topic {typed} --partition 0"
    reading = tools.start(f"{line} --offset earliest --max-messages {2 * TYPED}", logs["reading"])
    line = f"kafka-console-producer --bootstrap-server {cluster.bootstrap} --topic {typed} {PATIENT}"
    with ended(reading), tools.typing(line, logs["typing"]) as keyboard:
        keyboard.write("".join(f"{number}\n" for number in range(TYPED)))
        keyboard.flush()
        cluster.wait_until(lambda: len(numbers(logs["reading"])) == TYPED, "half of it is read", TIMEOUT_S)

        line = f"kafka-producer-perf-test --topic {measured} --record-size 100 --num-records {MEASURED}"
        line += f" --throughput {THROUGHPUT} --producer-props bootstrap.servers={cluster.bootstrap} acks=all"
        with ended(tools.start(line, logs["measuring"])) as measuring:
            wait_for_records(cluster, measured, 1)
            victim = controller if fault.endswith("controller") else cluster.leader(typed, 0)
            assert measuring.is_running, measuring.log_tail()
            inject(fault, victim)
            keyboard.write("".join(f"{number}\n" for number in range(TYPED, 2 * TYPED)))
            keyboard.flush()
            cluster.wait_until(lambda: not reading.is_running, "everything is read", TIMEOUT_S)
            cluster.wait_until(lambda: not measuring.is_running, "the perf test has ended", TIMEOUT_S)
    recover(fault, victim)
    cluster.settle(timeout_s=TIMEOUT_S)

    assert (reading.exit_code, measuring.exit_code) == (0, 0), reading.log_tail() + measuring.log_tail()
    assert numbers(logs["reading"]) == list(range(2 * TYPED))
    assert [errors(log) for log in logs.values()] == [[], [], []]
    summary = re.findall(r"^(\d+) records sent, .* 99\.9th\.$", logs["measuring"].read_text(), re.MULTILINE)
    assert summary == [str(MEASURED)]
    assert ends(cluster, typed) + ends(cluster, measured) == [2 * TYPED, MEASURED]


@contextmanager
def ended(tool: ChildProcess) -> Iterator[ChildProcess]:
    """Kill a tool afterwards, unless it has ended."""
    try:
        yield tool
    finally:
        tool.kill()


def numbers(log: Path) -> list[int]:
    """The values that the console consumer has printed."""
    return [int(line) for line in log.read_text().splitlines() if line.isdecimal()]
