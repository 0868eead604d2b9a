"""Runs our tools in place of Kafka's in the tool scripts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.mixed import operator
from tests.interop.tool_script import Line
from tests.interop.tools import TIMEOUT_S, Outcome
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.processes import ChildProcess
from understudy.tools.tools import TOOLS

VERBS = {tool.kafka.removesuffix(".sh"): tool.name for tool in TOOLS.values()}
"""Our verb for each of Kafka's scripts."""
SHELL = "zookeeper-shell"


@dataclass(frozen=True, slots=True)
class OurTools:
    """Our tools as processes in a folder of their own."""

    cluster: LocalCluster
    directory: Path

    def run(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Outcome:
        """Run a command line of one of Kafka's tools with ours to its end."""
        name, *words = shlex.split(line)
        if name == SHELL:
            return self._create_znode(words)
        done = subprocess.run(
            self._command(name, words),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.directory,
            timeout=timeout_s,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, line: str, log: Path) -> ChildProcess:
        """Start a command line of one of Kafka's tools with ours; its output goes to `log`."""
        name, *words = shlex.split(line)
        return ChildProcess(name, self._command(name, words), log=log, directory=self.directory)

    def _command(self, name: str, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "understudy.cli.main", VERBS[name], *words]

    def _create_znode(self, words: Sequence[str]) -> Outcome:
        connect, _, path, *data = words
        with operator(self.cluster) as zookeeper:
            zookeeper.create(path, " ".join(data).encode())
        return Outcome(0, f"Connecting to {connect}\nCreated {path}\n", "")


def can_run(line: Line) -> bool:
    """Whether a line is an action or one of the tools that we have; of the ZooKeeper shell only `create` is done."""
    if line.verb == SHELL:
        return line.rest.startswith("create ")
    return not line.is_tool or line.verb in VERBS
