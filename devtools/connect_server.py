"""Runs a Spark Connect server on this machine, from PySpark's own jars, with the Java from pip and without bash."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pyspark

from devtools.java_processes import JavaProcesses
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.kafka_jars import jars
from understudy.spark.gateway import jvm_flags

_SPARK_HOME = Path(pyspark.__file__).parent
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Runs a Spark Connect server on this machine while its block runs.

    Args:
        folder: an empty folder for its log.
        master: the master of its Spark: `local[2]`, or the URL of a standalone cluster on this machine.

    Attributes:
        url: the URL for `SparkSession.builder.remote`.

    Raises:
        NotFetched: the PySpark is older than 4.0, which has no server in it, and Maven did not fetch one.
        ProcessFailed: the server did not start within a minute and a half.
    """

    def __init__(self, folder: Path, java: JavaRuntime, master: str = "local[2]") -> None:
        self._java = java
        self._master = master
        self._folder = folder
        self._processes = JavaProcesses(folder)
        self._stack = contextlib.ExitStack()
        self.url = ""

    def __enter__(self) -> ConnectServer:
        with contextlib.ExitStack() as stack:
            processes = stack.enter_context(self._processes)
            processes.start("server", self._command(), self._environment())
            (port,) = processes.wait_for("server", r"Spark Connect server started at: \S+:(\d+)\n")
            self.url = f"sc://127.0.0.1:{port}"
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def log(self) -> str:
        """Return the output of the server."""
        return self._processes.log("server")

    def _command(self) -> list[str]:
        more_jars = list(map(str, _jars_of_the_server()))
        settings = {
            # Executors have PySpark's jars only. `spark.jars` loads others in another class loader (SPARK-46762).
            "spark.executor.extraClassPath": ":".join(more_jars),
            "spark.master": self._master,
            "spark.app.name": "understudy",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        flags = [*jvm_flags(self._java, memory="512m"), *(f"-D{name}={value}" for name, value in settings.items())]
        classpath = ":".join([f"{_SPARK_HOME / 'jars'}/*", *more_jars])
        return [str(self._java.executable), *flags, "-cp", classpath, _MAIN]

    def _environment(self) -> dict[str, str]:
        return {
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Chooses the Python of the workers: for a client the server has no setting.
            "PYSPARK_PYTHON": sys.executable,
        }


def _jars_of_the_server() -> list[Path]:
    """Return the jars of the server that PySpark does not have: none from 4.0 on.

    Maven may lack the version of PySpark. Then they are of the release before it, which runs beside PySpark's jars.
    """
    if list((_SPARK_HOME / "jars").glob("spark-connect_*.jar")):
        return []
    name, version = "spark-connect_2.12", pyspark.__version__
    minor = version.rpartition(".")[0]
    folder = jars(f"{name}-{version}", [("org.apache.spark", name, f"[{minor}.0,{version}]")])
    return list(folder.glob(f"{name}-*.jar"))
