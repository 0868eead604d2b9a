"""Starts the Java process that Spark runs in, so that the Java from pip will do and nothing is left behind.

PySpark's own launcher insists on bash and on a module that small runtimes lack (`jdk.incubator.vector`; nothing here
needs it). Spark also accepts a gateway that somebody else has started, by two environment variables; that is what
spark-submit does for Python programs, and what this module does without it. The process reads its standard input to the
end and then leaves: the pipe is held by this process alone, so it closes even when this process is SIGKILLed.
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

from understudy.java import JavaRuntime

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.02

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
"""Packages of java.base that Spark reaches into (`JavaModuleOptions`)."""

_FIRST_TO_ASK_FOR_NATIVE_ACCESS = 24
_LAST_WITH_SECURITY_ACTION = 23


class GatewayFailed(Exception):
    """Spark's Java process did not start. The message shows the end of what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A running one: where PySpark reaches it, and with which secret."""

    pid: int
    port: int
    secret: str


def jvm_flags(java: JavaRuntime, *, memory: str, quick: bool) -> list[str]:
    """Flags for the Java process.

    Args:
        memory: heap, as `-Xmx` takes it.
        quick: for work of seconds: the simple compiler and collector halve the start, and lose a quarter on a million
            records.
    """
    packages = list(_OPENED_PACKAGES)
    if java.version is None or java.version <= _LAST_WITH_SECURITY_ACTION:
        packages.append("sun.security.action")
    flags = ["-XX:+IgnoreUnrecognizedVMOptions", f"-Xmx{memory}", "-Djdk.reflect.useDirectMethodHandle=false"]
    flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in packages]
    if java.version is not None and java.version >= _FIRST_TO_ASK_FOR_NATIVE_ACCESS:
        flags += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    if quick:
        flags += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return flags


@contextlib.contextmanager
def gateway(java: JavaRuntime, spark_home: Path, flags: list[str], *, loopback: bool) -> Iterator[Gateway]:
    """Spark's gateway for as long as the block lasts.

    Args:
        loopback: be reachable from this machine only; false where executors on other machines have to call back.

    Raises:
        GatewayFailed: it ended or said nothing within a minute.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-spark-") as folder:
        connection, output = Path(folder) / "connection", Path(folder) / "output"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [
                    str(java.executable),
                    *flags,
                    "-cp",
                    f"{spark_home / 'jars'}/*",
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
        finally:
            _end(process)


def _environment(java: JavaRuntime, spark_home: Path, connection: Path, loopback: bool) -> dict[str, str]:
    """The child's; ours stays as it is. Variables that would redirect Spark elsewhere are not passed on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    own = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
    }
    return kept | own | ({"SPARK_LOCAL_IP": "127.0.0.1"} if loopback else {})


def _wait_for(process: subprocess.Popen[bytes], connection: Path, output: Path) -> Gateway:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if connection.exists():
            port, secret = _read_connection(connection.read_bytes())
            return Gateway(pid=process.pid, port=port, secret=secret)
        if process.poll() is not None:
            raise GatewayFailed(f"Spark's Java ended with exit code {process.returncode}. It said:\n{_tail(output)}")
        time.sleep(_POLL_S)
    raise GatewayFailed(f"Spark's Java was not ready within {START_TIMEOUT_S:g} s. It said:\n{_tail(output)}")


def _read_connection(data: bytes) -> tuple[int, str]:
    """Port, length of the secret, secret; big-endian. Java renames the file into place, so it is whole."""
    port, length = struct.unpack(">ii", data[:8])
    return port, data[8 : 8 + length].decode("utf-8")


def _tail(output: Path, lines: int = 15) -> str:
    return "\n".join(output.read_text(errors="replace").splitlines()[-lines:])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close its input, which is the signal to leave; then, if it must be, kill."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
