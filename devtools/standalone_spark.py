"""Runs a standalone Spark cluster on this machine, a master and workers from PySpark's own jars.

Benchmarks and tests use it, and it shows what a cluster needs to run this software with the Java from pip.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pyspark

from devtools.java_processes import JavaProcesses, home_for_executors
from understudy.clusters.java import JavaRuntime

_SPARK_HOME = Path(pyspark.__file__).parent


class StandaloneCluster:
    """Runs a master and workers on this machine while its block runs. Each worker has one core.

    Args:
        folder: an empty folder for logs and for the files of workers.
        workers: the number of workers.
        jars: the folder with the jars of Spark; PySpark's by default.

    Attributes:
        master: the URL for `--master`.
        workers: the processes of the workers. Executors are in the process groups of their workers.

    Raises:
        ProcessFailed: the cluster did not start within a minute and a half.
    """

    def __init__(self, folder: Path, java: JavaRuntime, workers: int, jars: Path = _SPARK_HOME / "jars") -> None:
        self._folder = folder
        self._jars = jars
        self._java = java
        self._count = workers
        self._processes = JavaProcesses(folder)
        self._stack = contextlib.ExitStack()
        self.master = ""
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> StandaloneCluster:
        home = home_for_executors(self._java, self._folder / "java")
        with contextlib.ExitStack() as stack:
            processes = stack.enter_context(self._processes)
            arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._start("master", home, "org.apache.spark.deploy.master.Master", *arguments)
            (self.master,) = processes.wait_for("master", r"Starting Spark master at (spark://\S+)")
            for number in range(self._count):
                arguments = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
                arguments += ["--work-dir", str(self._folder / f"work-{number}"), self.master]
                main = "org.apache.spark.deploy.worker.Worker"
                self.workers.append(self._start(f"worker-{number}", home, main, *arguments))
            processes.wait_for("master", r"Registering worker (\S+)", self._count)
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
        return self._processes.log(name)

    def _start(self, name: str, java_home: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self._processes.start(
            name,
            [
                str(java_home / "bin" / "java"),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                f"{self._jars}/*",
                main,
                *arguments,
            ],
            {
                "JAVA_HOME": str(java_home),
                "SPARK_HOME": str(_SPARK_HOME),
                "SPARK_SCALA_VERSION": "2.13",
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_NO_DAEMONIZE": "1",
            },
        )
