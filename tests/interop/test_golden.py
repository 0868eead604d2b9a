"""Runs recorded scenarios with Apache's own tools, as they were recorded; the tools have to print the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.golden.process_cluster import ProcessCluster
from tests.golden.recording import load
from tests.golden.scenario_cluster import (
    Cancellation,
    ConfigChange,
    Election,
    MorePartitions,
    Reassignment,
    ReassignmentList,
    Refused,
    Request,
    TopicCreation,
    TopicDeletion,
    Verification,
    tree_of,
)
from tests.golden.scenarios import brokers_and_settings
from tests.golden.test_scenarios import WITH_TOOLS, check_on_processes
from tests.interop.tools import Tools
from tests.shares import SHARES, share_of
from understudy.brokers.config.properties import format_properties
from understudy.clusters.clients.config_requests import BROKER
from understudy.clusters.clients.topic_requests import PREFERRED

SHORT_TIMEOUTS = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
"""Timeouts of tools whose requests go to a dead broker; by default they wait for a minute."""


class Printed(NamedTuple):
    """The output and exit code of a tool."""

    stdout: str
    stderr: str
    rc: int


class ToolDrivenCluster(ProcessCluster):
    """Our brokers as processes, administered with Apache's tools."""

    def __init__(self, directory: Path, brokers: Sequence[int], settings: Mapping[str, str], tools: Tools) -> None:
        super().__init__(directory, brokers, settings)
        self._tools = tools
        self.printed: list[Printed] = []
        """The output of all tools, in order."""

    def ask(self, request: Request) -> Refused | None:
        name, *options = self._command(request)
        ports = self._ports()
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        outcome = self._tools.run(" ".join([name, "--bootstrap-server", bootstrap, *options]))
        self.printed.append(_normalised(outcome.stdout, outcome.stderr, outcome.rc, ports))
        return Refused(outcome.stdout + outcome.stderr) if outcome.rc else None

    def _command(self, request: Request) -> list[str]:
        """The tool that makes the request, and its options."""
        match request:
            case TopicCreation(topic, assignment, configs):
                placed = _listed([assignment[partition] for partition in sorted(assignment)])
                settings = [f"--config {key}={value}" for key, value in configs.items()]
                return ["kafka-topics", "--create", f"--topic {topic}", f"--replica-assignment {placed}", *settings]
            case MorePartitions(topic, partitions, assignment):
                wanted = ["kafka-topics", "--alter", f"--topic {topic}", f"--partitions {partitions}"]
                if assignment is None:
                    return wanted
                return [*wanted, f"--replica-assignment {_listed([*self._replicas(topic), *assignment])}"]
            case TopicDeletion(topic):
                return ["kafka-topics", "--delete", f"--topic {topic}"]
            case Election(kind, partitions):
                if partitions is None:
                    which = "--all-topic-partitions"
                else:
                    [(topic, partition)] = partitions
                    which = f"--topic {topic} --partition {partition}"
                return [
                    "kafka-leader-election",
                    f"--election-type {'preferred' if kind == PREFERRED else 'unclean'}",
                    which,
                ]
            case ConfigChange():
                return ["kafka-configs", *_config_options(request)]
            case ReassignmentList():
                return ["kafka-reassign-partitions", "--list"]
            case Reassignment():
                return ["kafka-reassign-partitions", "--execute", self._plan(request)]
            case Verification(reassignment):
                return ["kafka-reassign-partitions", "--verify", self._plan(reassignment)]
            case Cancellation(reassignment):
                patience = self._tools.directory / "impatient.properties"
                patience.write_text(format_properties(SHORT_TIMEOUTS), encoding="utf-8")
                return [
                    "kafka-reassign-partitions",
                    "--cancel",
                    self._plan(reassignment),
                    f"--command-config {patience.name}",
                ]
        raise AssertionError(f"no tool is known for {request}")

    def _replicas(self, topic: str) -> list[Sequence[int]]:
        existing = json.loads(tree_of(self)[f"/brokers/topics/{topic}"].data or b"")["partitions"]
        return [existing[partition] for partition in sorted(existing, key=int)]

    def _plan(self, reassignment: Reassignment) -> str:
        moves = [
            {"topic": topic, "partition": partition, "replicas": replicas}
            for (topic, partition), replicas in reassignment.moves.items()
        ]
        plan = self._tools.directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
        return f"--reassignment-json-file {plan.name}"


def _config_options(change: ConfigChange) -> list[str]:
    kind = "brokers" if change.resource_type == BROKER else "topics"
    named = f"--entity-name {change.name}" if change.name else "--entity-default"
    if not change.changes:
        return ["--describe", f"--entity-type {kind}", named]
    added = ",".join(f"{key}={value}" for key, value in change.changes.items() if value is not None)
    deleted = ",".join(key for key, value in change.changes.items() if value is None)
    changes = [*([f"--add-config {added}"] if added else []), *([f"--delete-config {deleted}"] if deleted else [])]
    return ["--alter", f"--entity-type {kind}", named, *changes]


def _listed(replicas: Sequence[Sequence[int]]) -> str:
    """The replicas in the format of `--replica-assignment`."""
    return ",".join(":".join(map(str, of_partition)) for of_partition in replicas)


def _normalised(stdout: str, stderr: str, rc: int, ports: dict[int, int]) -> Printed:
    """The output of a tool without stack traces, times of log lines, and ports."""
    return Printed(_without_chance(stdout, ports), _without_chance(stderr, ports), rc)


def _without_chance(printed: str, ports: dict[int, int]) -> str:
    lines = [re.sub(r"^\[\d{4}-[^]]*\] ", "", line) for line in printed.splitlines() if not line.startswith("\tat ")]
    text = "\n".join(lines).strip()
    for broker, port in ports.items():
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:<port {broker}>")
    return text


def test_the_whole_share_has_all_scenarios_with_tools() -> None:
    assert SHARES["golden-tools"].whole == len(WITH_TOOLS)


@pytest.mark.spec("GT-1", "GT-4", "GT-5", "GT-6", "IO-17")
@pytest.mark.parametrize("scenario", WITH_TOOLS[: share_of("golden-tools")])
def test_our_brokers_do_what_kafka_did_when_administered_with_apaches_tools(
    scenario: str, tools: Tools, tmp_path: Path
) -> None:
    def cluster_of(run: int) -> ToolDrivenCluster:
        return ToolDrivenCluster(tmp_path / f"cluster-{run}", *brokers_and_settings(scenario), tools)

    cluster = check_on_processes(scenario, cluster_of, tools_choose=True)
    by_tool = [step for step in load(scenario)["steps"] if "stdout" in step]
    assert cluster.printed == [_normalised(step["stdout"], step["stderr"], step["rc"], {}) for step in by_tool]
