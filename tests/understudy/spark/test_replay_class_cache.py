"""`understudy replay` makes the cache of Spark's classes itself, at a terminal only, and leaves no process for it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.cli.analysis import replay
from understudy.clusters.java import JavaRuntime
from understudy.spark import class_cache, class_cache_making
from understudy.spark.failures import SparkFailed


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaRuntime:
    monkeypatch.setenv(class_cache.VARIABLE, str(tmp_path / "caches"))
    return JavaRuntime(home=tmp_path, version=class_cache.FIRST_JAVA, why="for a test")


def made_by(make: Callable[[JavaRuntime], Path | None], java: JavaRuntime, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the last line that stays on a terminal when `make` makes the cache."""
    monkeypatch.setattr(class_cache_making, "make", make)
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    replay._make_class_cache(java)
    return screen.getvalue().rpartition("\x1b[2K")[2]


def test_at_a_terminal_the_command_waits_for_the_cache(java: JavaRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    line = made_by(class_cache.cache_file, java, monkeypatch)
    assert (
        line == f"Spark's next start takes half the time, by a cache of its classes: {class_cache.cache_file(java)}\n"
    )


def test_elsewhere_nothing_is_made(
    java: JavaRuntime, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script waits for the end of the command."""
    monkeypatch.setattr(class_cache_making, "make", lambda _: pytest.fail("a cache is made"))
    replay._make_class_cache(java)
    assert capsys.readouterr() == ("", "")


def test_a_cache_that_exists_is_not_made_again(java: JavaRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    file = class_cache.cache_file(java)
    assert file is not None
    file.parent.mkdir()
    file.touch()
    assert made_by(lambda _: pytest.fail("a cache is made"), java, monkeypatch) == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), ""),
        (SparkFailed("Spark's Java ended"), ": Spark's Java ended"),
        (OSError("the disk is full"), ": the disk is full"),
    ],
)
def test_a_cache_that_is_not_made_is_no_failure_of_the_command(
    error: BaseException, reason: str, java: JavaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: JavaRuntime) -> None:
        raise error

    line = made_by(fail, java, monkeypatch)
    assert line == f"The cache of Spark's classes is not made; UNDERSTUDY_CLASS_CACHE=off turns it off{reason}\n"
