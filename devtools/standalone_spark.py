"""Runs a standalone Spark cluster on this machine, a master and workers from PySpark's own jars.

Benchmarks and tests use it, and it shows what a cluster needs to run this software with the Java from pip.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pyspark

from understudy.clusters.java import JavaRuntime

START_TIMEOUT_S = 90.0
_POLL_S = 0.05
_SPARK_HOME = Path(pyspark.__file__).parent

# Spark starts every executor with `--add-modules=jdk.incubator.vector`. Small runtimes lack that module, and Java then
# does not start.
_JAVA_WITHOUT_THE_FLAG = """#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""

# Ends the process group when this program has ended, in whatever way: nothing else holds the other end of the pipe.
_UNTIL_THE_INPUT_ENDS = '"$@" & read -r _; kill -KILL 0'


class ClusterFailed(Exception):
    """A process of the cluster was not ready in time. The message has its output."""


class StandaloneCluster:
    """Runs a master and workers on this machine while its block runs. Each worker has one core.

    Args:
        folder: an empty folder for logs and for the files of workers.
        workers: the number of workers.

    Attributes:
        master: the URL for `--master`.
        workers: the processes of the workers. Executors are in the process groups of their workers.

    Raises:
        ClusterFailed: the cluster did not start within a minute and a half.
    """

    def __init__(self, folder: Path, java: JavaRuntime, workers: int) -> None:
        self._folder = folder
        self._java = java
        self._count = workers
        self._stack = contextlib.ExitStack()
        self.master = ""
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> StandaloneCluster:
        binaries = self._folder / "java" / "bin"
        binaries.mkdir(parents=True)
        (binaries / "java").write_text(_JAVA_WITHOUT_THE_FLAG.format(java=f"'{self._java.executable}'"))
        (binaries / "java").chmod(0o755)
        with contextlib.ExitStack() as stack:
            arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._start(stack, "master", "org.apache.spark.deploy.master.Master", *arguments)
            (self.master,) = self._wait_for("master", r"Starting Spark master at (spark://\S+)", 1)
            for number in range(self._count):
                arguments = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
                arguments += ["--work-dir", str(self._folder / f"work-{number}"), self.master]
                main = "org.apache.spark.deploy.worker.Worker"
                self.workers.append(self._start(stack, f"worker-{number}", main, *arguments))
            self._wait_for("master", r"Registering worker (\S+)", self._count)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill_worker(self, number: int) -> None:
        """Kill a worker and the executors it has started."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def log(self, name: str) -> str:
        """Return the output of `master` or of a worker, for example `worker-0`."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _start(self, stack: contextlib.ExitStack, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                _UNTIL_THE_INPUT_ENDS,
                "sh",
                str(self._folder / "java" / "bin" / "java"),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                f"{_SPARK_HOME / 'jars'}/*",
                main,
                *arguments,
            ],
            env={
                "PATH": os.environ["PATH"],
                "JAVA_HOME": str(self._folder / "java"),
                "SPARK_HOME": str(_SPARK_HOME),
                "SPARK_SCALA_VERSION": "2.13",
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_NO_DAEMONIZE": "1",
            },
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end_group, process)
        return process

    def _wait_for(self, name: str, pattern: str, count: int) -> list[str]:
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(found := re.findall(pattern, self.log(name))) < count:
            if time.monotonic() > deadline:
                raise ClusterFailed(
                    f"the {name} of Spark was not ready within {START_TIMEOUT_S:g} s:\n{self.log(name)}"
                )
            time.sleep(_POLL_S)
        return found


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
