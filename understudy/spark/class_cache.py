"""Keeps a cache of Spark's loaded classes (JEP 483, 514), with which its Java starts in half the time.

The cache is a file of about 85 MB in the user's cache folder. `understudy replay` makes it once, in some 20 seconds,
after it has printed its page on a terminal, and leaves no process for it. Its name is a checksum of the Java, the jars
and the flags that it is for. Java itself ignores a cache that does not fit, so a wrong one only costs time.
UNDERSTUDY_CLASS_CACHE=off turns it off, and any other value is the folder to use.

    python -m understudy.spark.class_cache [JAVA_HOME]      make the cache, and wait for it
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from understudy.clusters.java import JavaRuntime, choose_java

FIRST_JAVA = 25
"""The first Java that makes a cache in a single run (`-XX:AOTCacheOutput`)."""

NEEDED_BYTES = 600 * 1024 * 1024
"""Free space without which no cache is made: the file, and the one that Java makes it from."""

MAKING_TIMEOUT_S = 120.0
"""The time that Java may take to write the cache as it ends."""
KEPT_CACHES = 2
"""Caches of former versions beyond this number are removed when a new one is made."""

VARIABLE = "UNDERSTUDY_CLASS_CACHE"
_OFF = ("off", "0", "no", "false")
_SUFFIX = ".aot"


def cache_file(java: JavaRuntime, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the cache for this Java and Spark is or will be; None if there can be none."""
    wanted = environment.get(VARIABLE, "")
    if wanted.lower() in _OFF or java.version is None or java.version < FIRST_JAVA:
        return None
    if wanted:
        return Path(wanted).absolute() / _name(java)
    base = environment.get("XDG_CACHE_HOME") or (environment["HOME"] + "/.cache" if "HOME" in environment else "")
    return Path(base) / "understudy" / _name(java) if base.startswith("/") else None


def flags(java: JavaRuntime) -> tuple[str, ...]:
    """Return the flags with which Java uses the cache; none if it has not been made."""
    file = cache_file(java)
    return (f"-XX:AOTCache={file}",) if file is not None and file.is_file() else ()


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
        GatewayFailed: Java did not start.
        SparkFailed: Spark does not run.
        OSError: the folder cannot be written.
    """
    from understudy.spark.context import SparkSettings
    from understudy.spark.replay_job import SparkReplay

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
            with SparkReplay(settings) as spark:
                spark.warm_up()
            if not made.is_file():
                return None
            made.replace(file)
    return file


def _name(java: JavaRuntime) -> str:
    release = java.home / "release"
    facts = (
        str(java.home),
        release.read_text(errors="replace") if release.is_file() else "",
        str(Path(pyspark.__file__).parent),
        pyspark.__version__,
    )
    return f"spark-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}{_SUFFIX}"


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
    others = sorted(file.parent.glob(f"spark-*{_SUFFIX}"), key=lambda other: other.stat().st_mtime)
    for other in others[: max(0, len(others) - KEPT_CACHES + 1)]:
        other.unlink(missing_ok=True)
        other.with_suffix(".lock").unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(19)
    make(choose_java(sys.argv[1] if sys.argv[1:] else None))
