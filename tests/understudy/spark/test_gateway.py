"""Spark's Java process ends with the block that uses it, however slowly it would end, and at an interruption."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from understudy.clusters.java import JavaRuntime
from understudy.spark import gateway as module
from understudy.spark.gateway import Gateway, gateway

LONG_S = 600.0
MLLIB = "spark-mllib_2.13.jar"
JAVA_THAT_DOES_NOT_END = """\
#!/bin/sh
echo "$*" > "$(dirname "$0")/arguments"
printf '\\0\\0\\0\\1\\0\\0\\0\\1s' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec sleep 600
"""


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(JAVA_THAT_DOES_NOT_END)
    (home / "bin" / "java").chmod(0o755)
    return JavaRuntime(home=home, version=25, why="for a test")


def is_running(process: Gateway) -> bool:
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_does_not_end_is_killed(java: JavaRuntime, tmp_path: Path) -> None:
    with gateway(java, tmp_path, [], loopback=True, stop_timeout_s=0.05) as running:
        assert (running.port, running.secret) == (1, "s")
        assert is_running(running)
    assert not is_running(running)


@pytest.mark.parametrize(
    ("has_mllib", "jars"),
    [(False, ("scala-library.jar", "spark-sql_2.13.jar")), (True, ("scala-library.jar", "spark-sql_2.13.jar", MLLIB))],
)
def test_mllib_is_the_last_jar_or_none(
    has_mllib: bool, jars: tuple[str, ...], java: JavaRuntime, tmp_path: Path
) -> None:
    """A session of Spark loads it for functions that no command uses; a cache of classes fits with it and without."""
    (tmp_path / "jars").mkdir()
    for name in ("spark-sql_2.13.jar", MLLIB, "scala-library.jar"):
        (tmp_path / "jars" / name).touch()
    with gateway(java, tmp_path, [], loopback=True, has_mllib=has_mllib, stop_timeout_s=0.05):
        arguments = (java.home / "bin" / "arguments").read_text().split()
    assert arguments[arguments.index("-cp") + 1] == ":".join(str(tmp_path / "jars" / name) for name in jars)


@pytest.mark.parametrize(
    ("error", "limit"), [(KeyboardInterrupt, "INTERRUPTED_STOP_TIMEOUT_S"), (OSError, "STOP_TIMEOUT_S")]
)
def test_after_an_exception_it_gets_no_time_for_what_it_would_still_write(
    error: type[BaseException], limit: str, java: JavaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of classes, for which the limit is long, is written as Java ends."""
    monkeypatch.setattr(module, limit, 0.05)
    with pytest.raises(error), gateway(java, tmp_path, [], loopback=True, stop_timeout_s=LONG_S) as running:
        raise error
    assert not is_running(running)


def test_an_interruption_while_it_ends_kills_it(
    java: JavaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, limits = subprocess.Popen.wait, []

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        limits.append(timeout)
        if timeout is not None:
            raise KeyboardInterrupt
        return wait(process)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt), gateway(java, tmp_path, [], loopback=True, stop_timeout_s=LONG_S) as running:
        pass
    assert limits == [LONG_S, None]
    assert not is_running(running)
