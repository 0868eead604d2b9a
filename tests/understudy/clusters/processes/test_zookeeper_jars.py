"""Where ZooKeeper's jars are looked for, and the error if they are not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.clusters.processes import zookeeper_jars as jars
from understudy.clusters.processes.zookeeper_jars import PATTERNS, VARIABLE, JarsNotFound, jar_folder, zookeeper_jars


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    with pytest.raises(JarsNotFound, match=r"no zookeeper-\[0-9\]\*\.jar in .*install the wheel"):
        zookeeper_jars({VARIABLE: str(tmp_path)})


def test_the_variable_comes_before_the_wheel_and_the_wheel_before_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jar_folder({}).parts[-2:] == ("pyspark", "jars")
    monkeypatch.setattr(jars, "PACKAGED", tmp_path)
    for pattern in PATTERNS:
        (tmp_path / pattern.replace("[0-9]*", "3").replace("*", "3")).touch()
    assert jar_folder({}) == tmp_path
    assert len(zookeeper_jars({})) == len(PATTERNS)
    assert jar_folder({VARIABLE: "elsewhere"}) == Path("elsewhere")


def test_without_any_of_them_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(JarsNotFound, match=f"no jars of ZooKeeper; install .* PySpark, or set {VARIABLE}"):
        zookeeper_jars({})


def test_finding_the_jars_does_not_import_pyspark() -> None:
    program = (
        "import sys; from understudy.clusters.processes.zookeeper_jars import zookeeper_jars; "
        "print(len(zookeeper_jars()), 'pyspark' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["5", "False"]
