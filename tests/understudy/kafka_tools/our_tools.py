"""Runs our tools in place of Kafka's in the tool scripts."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import NoReturn

from tests.interop.tools import TIMEOUT_S, Outcome
from understudy.cli.main import main
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.kafka_tools.tools import TOOLS

VERBS = {tool.kafka.removesuffix(".sh"): tool.name for tool in TOOLS.values()}
"""Our verb for each of Kafka's scripts."""

WITHOUT_OUR_TOOLS = {"security"}
"""Scripts of tools, or of entities, that we do not have."""

# A script runs dozens of tools, whose imports take most of their time: each is a fork of a process that has done them.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["understudy.cli.main", "understudy.cli.tools"])
# Each start of a process looks whether others have ended, and two threads cannot read the same exit code.
_STARTING_OR_ENDING = threading.Lock()


@dataclass(frozen=True, slots=True)
class OurTools:
    """Our tools as processes in a folder of their own."""

    cluster: LocalCluster
    directory: Path

    def run(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Outcome:
        """Run a command line of one of Kafka's tools with ours to its end."""
        name, *words = shlex.split(line)
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
            streams[0].write_text(stdin)
            tool = _FORKS.Process(target=_run_tool, args=([VERBS[name], *words], self.directory, streams))
            with _STARTING_OR_ENDING:
                tool.start()
            has_ended = bool(wait([tool.sentinel], timeout_s))
            with _STARTING_OR_ENDING:
                if not has_ended:
                    tool.kill()
                tool.join()
            if not has_ended:
                raise TimeoutError(f"{line} has not ended after {timeout_s:g} s")
            assert tool.exitcode is not None
            return Outcome(tool.exitcode, *(stream.read_text() for stream in streams[1:]))

    def start(self, line: str, log: Path) -> ChildProcess:
        """Start a command line of one of Kafka's tools with ours; its output goes to `log`."""
        name, *words = shlex.split(line)
        return ChildProcess(name, self._command(name, words), log=log, directory=self.directory)

    def _command(self, name: str, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "understudy.cli.main", VERBS[name], *words]


_FLAGS = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)


def _run_tool(words: Sequence[str], directory: Path, streams: Sequence[Path]) -> NoReturn:
    """Run a tool in a fork, with files for its standard streams."""
    os.chdir(directory)
    for number, (stream, flags) in enumerate(zip(streams, _FLAGS, strict=True)):
        os.dup2(os.open(stream, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8")  # multiprocessing has replaced it
    sys.exit(main(words))
