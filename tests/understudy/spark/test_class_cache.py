"""The cache of Spark's classes: where it is, when it is used, and that a wrong one only costs time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.shares import at_night
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.history.report.runs import find_logs
from understudy.spark import class_cache, class_cache_making
from understudy.spark.replay_job import SparkReplay
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="25.0.2"\n')
    return JavaRuntime(home=home, version=25, why="for a test")


def test_the_cache_is_in_the_users_cache_folder(java: JavaRuntime) -> None:
    file = class_cache.cache_file(java, {"HOME": "/home/ada"})
    assert file is not None
    assert file.parent == Path("/home/ada/.cache/understudy")
    elsewhere = class_cache.cache_file(java, {"HOME": "/home/ada", "XDG_CACHE_HOME": "/var/cache/ada"})
    assert elsewhere == Path("/var/cache/ada/understudy") / file.name
    assert class_cache.cache_file(java, {class_cache.VARIABLE: "/tmp/here"}) == Path("/tmp/here") / file.name


def test_each_java_has_a_cache_of_its_own(java: JavaRuntime) -> None:
    before = class_cache.cache_file(java, {"HOME": "/home/ada"})
    (java.home / "release").write_text('JAVA_VERSION="25.0.3"\n')
    assert class_cache.cache_file(java, {"HOME": "/home/ada"}) != before


@pytest.mark.parametrize(
    ("version", "environment"),
    [
        (24, {"HOME": "/home/ada"}),
        (None, {"HOME": "/home/ada"}),
        (25, {"HOME": "/home/ada", class_cache.VARIABLE: "off"}),
        (25, {"HOME": "/home/ada", class_cache.VARIABLE: "OFF"}),
        (25, {}),
    ],
)
def test_without_a_place_or_a_new_java_there_is_no_cache(
    version: int | None, environment: dict[str, str], java: JavaRuntime
) -> None:
    other = JavaRuntime(home=java.home, version=version, why="for a test")
    assert class_cache.cache_file(other, environment) is None


def test_a_cache_is_used_once_it_is_complete(
    java: JavaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(class_cache.VARIABLE, str(tmp_path / "caches"))
    assert class_cache.flags(java) == ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
    file = class_cache.cache_file(java)
    assert file is not None
    file.parent.mkdir()
    file.touch()
    assert class_cache.flags(java) == (f"-XX:AOTCache={file}",)
    assert not class_cache_making.can_be_made(java)


def test_nothing_is_made_if_there_is_no_room_or_another_process_makes_it(
    java: JavaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(class_cache.VARIABLE, "/proc/nowhere")
    assert not class_cache_making.can_be_made(java)
    monkeypatch.setenv(class_cache.VARIABLE, str(tmp_path / "caches"))
    file = class_cache.cache_file(java)
    assert file is not None
    file.parent.mkdir()
    assert class_cache_making.can_be_made(java)
    with file.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not class_cache_making.can_be_made(java)
        assert class_cache_making.make(java) is None
    monkeypatch.setattr(class_cache_making, "NEEDED_BYTES", 2**62)
    assert not class_cache_making.can_be_made(java)
    assert [path.name for path in file.parent.iterdir()] == [f"{file.stem}.lock"]


def test_former_caches_are_removed(tmp_path: Path) -> None:
    for age, name in enumerate(("spark-c.aot", "spark-b.aot", "spark-a.aot", "spark-a.lock", "other.aot")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    class_cache_making._remove_former_caches(tmp_path / "spark-new.aot")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.aot", "spark-c.aot"]


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    for name, lines in killed_controller().lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


@pytest.mark.xdist_group("spark class_cache")
@at_night("Java and its classes are pinned; that a cache is made and found is tested each time")
def test_java_accepts_the_cache_that_is_made(tmp_path: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose_java()
    if chosen.version is None or chosen.version < class_cache.FIRST_JAVA:
        pytest.skip(f"a cache needs Java {class_cache.FIRST_JAVA}; this is {chosen}")
    monkeypatch.setenv(class_cache.VARIABLE, str(tmp_path / "caches"))
    file = class_cache_making.make(chosen)
    assert file is not None
    assert class_cache.flags(chosen) == (f"-XX:AOTCache={file}",)
    # With this mode Java ends if it cannot use the cache.
    settings = SparkSettings(java=chosen, flags=(*class_cache.flags(chosen), "-XX:AOTMode=on"))
    with spark_running(settings) as spark:
        assert len(SparkReplay(spark, "Spark").replay(find_logs([run_folder])).runs) == 1


@pytest.mark.xdist_group("spark class_cache")
@at_night("Java and its classes are pinned; that a cache is made and found is tested each time")
def test_a_broken_cache_is_ignored(tmp_path: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_cache.VARIABLE, str(tmp_path))
    chosen = choose_java()
    file = class_cache.cache_file(chosen)
    if file is None:
        pytest.skip(f"a cache needs Java {class_cache.FIRST_JAVA}; this is {chosen}")
    file.write_bytes(b"no cache at all" * 1000)
    with spark_running(SparkSettings.with_class_cache(chosen)) as spark:
        assert len(SparkReplay(spark, "Spark").replay(find_logs([run_folder])).runs) == 1
