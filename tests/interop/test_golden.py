"""The recorded scenarios once more, with Apache's own tools for what a tool did then; they have to print the same.

Configs are altered without the tool, which asks whichever broker it likes: who wrote is part of what is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.golden.real_stage import RealStage
from tests.golden.recording import load
from tests.golden.scenarios import Election, Reassignment, Refused, brokers_of, tree_of
from tests.golden.test_scenarios import check
from tests.interop.tools import Tools
from understudy.admin_client import PREFERRED


class ToolStage(RealStage):
    """Real processes of ours, administered by Apache's tools."""

    def __init__(self, directory: Path, brokers: Sequence[int], tools: Tools) -> None:
        super().__init__(directory, brokers)
        self._tools = tools
        self.printed: list[str] = []
        """What each tool printed, in order."""

    def create_topic(self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]) -> Refused | None:
        options = "".join(f" --config {key}={value}" for key, value in configs.items())
        placed = _listed([assignment[partition] for partition in sorted(assignment)])
        return self._run(f"kafka-topics --create --topic {name} --replica-assignment {placed}{options}")

    def create_partitions(self, topic: str, count: int, assignment: Sequence[Sequence[int]]) -> Refused | None:
        existing = json.loads(tree_of(self)[f"/brokers/topics/{topic}"].data or b"")["partitions"]
        placed = _listed([*(existing[partition] for partition in sorted(existing, key=int)), *assignment])
        return self._run(f"kafka-topics --alter --topic {topic} --partitions {count} --replica-assignment {placed}")

    def delete_topic(self, name: str) -> Refused | None:
        return self._run(f"kafka-topics --delete --topic {name}")

    def elect_leaders(self, election: Election) -> Refused | None:
        kind = "preferred" if election.election_type == PREFERRED else "unclean"
        if election.partitions is None:
            return self._run(f"kafka-leader-election --election-type {kind} --all-topic-partitions")
        [(topic, partition)] = election.partitions
        return self._run(f"kafka-leader-election --election-type {kind} --topic {topic} --partition {partition}")

    def reassign_partitions(self, reassignment: Reassignment) -> Refused | None:
        moves = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in reassignment.moves.items()
        ]
        plan = self._tools.directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
        return self._run(f"kafka-reassign-partitions --execute --reassignment-json-file {plan.name}")

    def _run(self, line: str) -> Refused | None:
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports())
        outcome = self._tools.run(f"{line} --bootstrap-server {bootstrap}")
        self.printed.append(_without_traces(outcome.stdout))
        return Refused(outcome.stdout + outcome.stderr) if outcome.rc else None


def _listed(replicas: Sequence[Sequence[int]]) -> str:
    """As `--replica-assignment` wants them."""
    return ",".join(":".join(map(str, of_partition)) for of_partition in replicas)


def _without_traces(printed: str) -> str:
    """Neither stack traces nor the time of a line of the tool's log."""
    lines = [re.sub(r"^\[\d{4}-[^]]*\] ", "", line) for line in printed.splitlines() if not line.startswith("\tat ")]
    return "\n".join(lines).strip()


WITHOUT_TOOL = ("verify", "list", "cancel", "topic config unclean.leader.election.enable=true")
"""Steps that a tool took when Kafka was recorded, and none does here."""


@pytest.mark.spec("GT-1", "GT-4", "GT-5", "GT-6", "IO-17")
@pytest.mark.parametrize(
    "scenario",
    [
        "create-topic",
        "broker-killed",
        "controller-killed",
        "controlled-shutdown",
        "deletion",
        "offline-and-unclean",
        "reassignment",
    ],
)
def test_driven_by_apaches_tools_our_brokers_do_what_kafka_did(scenario: str, tools: Tools, tmp_path: Path) -> None:
    with ToolStage(tmp_path / "cluster", brokers_of(scenario), tools) as stage:
        check(scenario, stage)
    by_tool = [step for step in load(scenario)["steps"] if "stdout" in step and step["step"] not in WITHOUT_TOOL]
    assert stage.printed == [_without_traces(step["stdout"]) for step in by_tool]
