"""Makes the cache of Spark's loaded classes that `understudy.spark.class_cache` finds.

python -m understudy.spark.class_cache_making [JAVA_HOME]      make the cache, and wait for it
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from understudy.clusters.java import JavaRuntime, choose_java
from understudy.spark.class_cache import SUFFIX, cache_file
from understudy.spark.replay_job import SparkReplay
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings

NEEDED_BYTES = 600 * 1024 * 1024
"""Free space that making a cache needs: for its file, and for the file from which Java makes it."""

MAKING_TIMEOUT_S = 120.0
"""Maximum time that Java may take to write the cache as it ends."""
KEPT_CACHES = 2
"""Maximum number of caches. When a new one is made, the oldest ones beyond this number are removed."""


def can_be_made(java: JavaRuntime) -> bool:
    """Return whether the cache is missing, no other process is making it, and there is room for it."""
    file = cache_file(java)
    if file is None or file.is_file() or not _has_room(file):
        return False
    with _claimed(file) as is_ours:
        return is_ours


def make(java: JavaRuntime) -> Path | None:
    """Make the cache, if it is missing and no other process is making it; return its file, None if there is none.

    Raises:
        SparkFailed: Java did not start, or Spark does not run.
        OSError: the folder cannot be written.
    """
    file = cache_file(java)
    if file is None or file.is_file():
        return file
    with _claimed(file) as is_ours:
        if not is_ours:
            return None
        _remove_former_caches(file)
        with tempfile.TemporaryDirectory(prefix="making-", dir=file.parent) as folder:
            made = Path(folder) / file.name
            settings = SparkSettings(java=java, flags=(f"-XX:AOTCacheOutput={made}",), stop_timeout_s=MAKING_TIMEOUT_S)
            with spark_running(settings) as spark:
                SparkReplay(spark, settings.engine).warm_up()
            if not made.is_file():
                return None
            made.replace(file)
    return file


def _has_room(file: Path) -> bool:
    """Return whether the folder of the cache can be made and has room."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.access(file.parent, os.W_OK) and shutil.disk_usage(file.parent).free > NEEDED_BYTES
    except OSError:
        return False


@contextlib.contextmanager
def _claimed(file: Path) -> Iterator[bool]:
    """Hold the lock of a cache while the block runs; yield False if another process holds it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _remove_former_caches(file: Path) -> None:
    others = sorted(file.parent.glob(f"spark-*{SUFFIX}"), key=lambda other: other.stat().st_mtime)
    for other in others[: max(0, len(others) - KEPT_CACHES + 1)]:
        other.unlink(missing_ok=True)
        other.with_suffix(".lock").unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(19)
    make(choose_java(sys.argv[1] if sys.argv[1:] else None))
