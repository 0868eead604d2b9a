"""Starts the Java process that Spark runs in, so that the Java from pip is enough and no process is left behind.

PySpark's own launcher needs bash and a module that small runtimes lack (`jdk.incubator.vector`, which is not needed
here). PySpark also uses a gateway that is already running, named by two environment variables. spark-submit starts one
for Python programs; this module starts it without spark-submit. The Java process ends when its standard input closes,
and only this process holds the other end of that pipe, so it ends even after a SIGKILL of this process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.clusters.java import JavaRuntime
from understudy.spark.failures import SparkFailed

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
INTERRUPTED_STOP_TIMEOUT_S = 3.0
"""Time that Java has to end after Ctrl-C, while the user waits."""
_POLL_S = 0.02
_GONE_WITHIN_S = 0.2
"""Time between the last answer of a Java that is killed and its end."""

_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.util.calendar",
)
"""Packages of java.base whose internals Spark uses (`JavaModuleOptions`)."""

_MLLIB = "spark-mllib_"
_FIRST_JAVA_WITH_NATIVE_ACCESS_WARNING = 24
_LAST_JAVA_WITH_SECURITY_ACTION = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A running gateway: the port and the secret with which PySpark connects, and a folder for temporary files."""

    pid: int
    folder: Path
    port: int
    secret: str


def jvm_flags(java: JavaRuntime, *, memory: str) -> list[str]:
    """Return the flags of the Java process.

    It has the simple compiler and garbage collector, which halve the time of the start: Java only passes bytes on.

    Args:
        memory: the heap size, as in `-Xmx`.
    """
    packages = list(_OPENED_PACKAGES)
    if java.version is None or java.version <= _LAST_JAVA_WITH_SECURITY_ACTION:
        packages.append("sun.security.action")
    flags = ["-XX:+IgnoreUnrecognizedVMOptions", f"-Xmx{memory}", "-Djdk.reflect.useDirectMethodHandle=false"]
    flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in packages]
    if java.version is not None and java.version >= _FIRST_JAVA_WITH_NATIVE_ACCESS_WARNING:
        flags += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    return [*flags, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


@contextlib.contextmanager
def gateway(
    java: JavaRuntime,
    spark_home: Path,
    flags: list[str],
    *,
    loopback: bool,
    has_mllib: bool = False,
    stop_timeout_s: float = STOP_TIMEOUT_S,
) -> Iterator[Gateway]:
    """Run Spark's gateway while the block runs.

    Args:
        has_mllib: whether Java finds MLlib.
        stop_timeout_s: how long the process may take to end before it is killed.
        loopback: whether only this machine can connect; false if executors on other machines must connect.

    Raises:
        SparkFailed: the process ended, also during the block if that raises an exception, or was not ready within a
            minute.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-spark-") as folder:
        connection, output = Path(folder) / "connection", Path(folder) / "output"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [
                    str(java.executable),
                    *flags,
                    "-cp",
                    _classpath(spark_home, has_mllib=has_mllib),
                    "org.apache.spark.api.python.PythonGatewayServer",
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(java, spark_home, connection, loopback),
                cwd=folder,
                start_new_session=True,
            )
        try:
            yield _wait_for(process, connection, output)
        except BaseException as error:
            # What PySpark raises if Java has gone depends on what it was doing.
            has_gone = isinstance(error, Exception) and _ends_within(process, _GONE_WITHIN_S)
            # Files that Java would still write as it ends, such as a cache of its classes, are not needed any more.
            limit_s = INTERRUPTED_STOP_TIMEOUT_S if isinstance(error, KeyboardInterrupt) else STOP_TIMEOUT_S
            _end(process, min(stop_timeout_s, limit_s))
            if has_gone:
                raise _java_ended(process, output) from None
            raise
        _end(process, stop_timeout_s)


def _classpath(spark_home: Path, *, has_mllib: bool) -> str:
    """Return the jars of Spark, and the folder with the addresses of YARN and HDFS if there is one.

    MLlib adds functions to each session, and loads Scala's reflection for them: half a second of the start. It is the
    last jar, so that a cache of classes which was made without it fits.
    """
    jars = sorted((spark_home / "jars").glob("*.jar"))
    mllib = [jar for jar in jars if jar.name.startswith(_MLLIB)]
    found = [*(jar for jar in jars if jar not in mllib), *(mllib if has_mllib else ())]
    hadoop = os.environ.get("HADOOP_CONF_DIR")
    return ":".join([*map(str, found), *([hadoop] if hadoop else [])])


def _environment(java: JavaRuntime, spark_home: Path, connection: Path, loopback: bool) -> dict[str, str]:
    """Return the environment of the Java process, without this one's variables that would configure Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    added = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
    return kept | added | ({"SPARK_LOCAL_IP": "127.0.0.1"} if loopback else {})


def _wait_for(process: subprocess.Popen[bytes], connection: Path, output: Path) -> Gateway:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if connection.exists():
            port, secret = _read_connection(connection.read_bytes())
            return Gateway(pid=process.pid, folder=connection.parent, port=port, secret=secret)
        if process.poll() is not None:
            raise _java_ended(process, output)
        time.sleep(_POLL_S)
    raise SparkFailed(f"Spark's Java was not ready within {START_TIMEOUT_S:g} s. Its output:\n{_tail(output)}")


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait a moment for the end of a process whose connections are closed, and return whether it has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


def _java_ended(process: subprocess.Popen[bytes], output: Path) -> SparkFailed:
    return SparkFailed(f"Spark's Java ended with exit code {process.returncode}. Its output:\n{_tail(output)}")


def _read_connection(data: bytes) -> tuple[int, str]:
    """Decode port, length of the secret and secret, big-endian. Java renames the file into place, so it is complete."""
    port, length = struct.unpack(">ii", data[:8])
    return port, data[8 : 8 + length].decode("utf-8")


def _tail(output: Path, lines: int = 15) -> str:
    return "\n".join(output.read_text(errors="replace").splitlines()[-lines:])


def _end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Close the input of the process, which ends it. Kill it if it has not ended in time, or at an interruption."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
