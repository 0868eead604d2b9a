"""Runs a small HDFS, with or without a small YARN, on this machine: one Java process of Hadoop's artifacts for tests.

They have the version of Hadoop with which PySpark comes. Maven fetches them, and a JDK compiles `HadoopMini.java`; the
Java from pip runs them. Containers of YARN are started with bash.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark

from devtools.java_processes import JavaProcesses, home_for_executors
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.kafka_jars import NotFetched, jars

SPARK_HOME = Path(pyspark.__file__).parent

_SOURCE = Path(__file__).with_name("HadoopMini.java")
_COMPILE_TIMEOUT_S = 300
_LOG = """\
log4j.rootLogger=INFO, output
log4j.appender.output=org.apache.log4j.ConsoleAppender
log4j.appender.output.layout=org.apache.log4j.PatternLayout
log4j.appender.output.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class HadoopMini:
    """Runs HDFS with one data node and YARN with two node managers while its block runs, on free ports of this machine.

    Each node manager has 2 GiB and two cores to give. Containers run the Java of `java_home`.

    Args:
        folder: an empty folder for logs and for the files of both.
        with_yarn: also start YARN, which takes longer than HDFS.

    Attributes:
        configuration: the folder for HADOOP_CONF_DIR.
        filesystem: the URL of HDFS, for example `hdfs://localhost:40000`.
        java_home: a Java home for `spark-submit`, which starts Java as Spark starts executors.

    Raises:
        NotFetched: Maven, the artifacts or a JDK are missing.
        ProcessFailed: they did not start within a minute and a half.
    """

    def __init__(self, folder: Path, java: JavaRuntime, *, with_yarn: bool = True) -> None:
        self._folder = folder
        self._java = java
        self._parts = "yarn" if with_yarn else "hdfs"
        self._control = 0
        self._processes = JavaProcesses(folder)
        self._stack = contextlib.ExitStack()
        self.configuration = folder / "configuration"
        self.java_home = folder / "java"
        self.filesystem = ""

    def __enter__(self) -> HadoopMini:
        classpath = [*self._compiled(), str(self._folder)]
        home_for_executors(self._java, self.java_home)
        self.configuration.mkdir()
        (self._folder / "log4j.properties").write_text(_LOG)
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        files = [str(self._folder / "files"), str(self.configuration)]
        program = ["-cp", ":".join(classpath), _SOURCE.stem, *files, self._parts]
        command = [str(self._java.executable), *flags, *program]
        with contextlib.ExitStack() as stack:
            processes = stack.enter_context(self._processes)
            # Node managers pass their JAVA_HOME on to containers.
            processes.start("hadoop", command, {"JAVA_HOME": str(self.java_home)})
            ready = r"Hadoop is ready at (\S+), controlled by port \d+\n"
            (self.filesystem,) = processes.wait_for("hadoop", ready)
            self._control = int(processes.wait_for("hadoop", r"controlled by port (\d+)\n")[0])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def without(self, node: str) -> Iterator[None]:
        """Stop the `namenode` or the `datanode` while a block runs, and start it again at its port afterwards."""
        self.stop(node)
        try:
            yield
        finally:
            self.start(node)

    def stop(self, node: str) -> None:
        """Stop the `namenode` or the `datanode`; connections to it break off."""
        self._order(f"stop {node}")

    def start(self, node: str) -> None:
        """Start a node that was stopped, and wait until it serves."""
        self._order(f"start {node}")

    def _order(self, command: str) -> None:
        with socket.create_connection(("127.0.0.1", self._control)) as connection:
            connection.sendall(f"{command}\n".encode())
            assert connection.recv(1) == b"", f"{command}: not done\n{self.log()}"

    def log(self) -> str:
        """Return the output of the process."""
        return self._processes.log("hadoop")

    def _compiled(self) -> list[str]:
        """Compile the program, and return its classpath."""
        javac = shutil.which("javac")
        if javac is None:
            raise NotFetched("no javac on the PATH; install a JDK, 17 or newer")
        libs, classes = _libs(), self._folder / "classes"
        command = [javac, "--release", "17", "-cp", f"{libs}/*", "-d", str(classes), str(_SOURCE)]
        subprocess.run(command, check=True, timeout=_COMPILE_TIMEOUT_S)
        return [str(classes), f"{libs}/*"]


def _libs() -> Path:
    (runtime,) = (SPARK_HOME / "jars").glob("hadoop-client-runtime-*.jar")
    version = runtime.stem.removeprefix("hadoop-client-runtime-")
    artifacts = [
        ("org.apache.hadoop", "hadoop-client-minicluster", version),
        # It needs these, and does not name them.
        ("org.junit.jupiter", "junit-jupiter-api", "5.13.4"),
        ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    ]
    return jars(f"hadoop-minicluster-{version}", artifacts)
