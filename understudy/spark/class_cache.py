"""Keeps a cache of Spark's loaded classes (JEP 483, 514), with which its Java starts in half the time.

The cache is a file of about 85 MB in the user's cache folder. `understudy replay` makes it once, in some 20 seconds,
after it has printed its page on a terminal, and leaves no process for it. Its name has a checksum of the Java and
the PySpark that it is for. Java itself ignores a cache that does not fit, so a wrong one only costs time.
UNDERSTUDY_CLASS_CACHE=off turns it off, and any other value is the folder to use. `understudy.spark.class_cache_making`
makes the cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from understudy.clusters.java import JavaRuntime

FIRST_JAVA = 25
"""First version of Java that makes a cache in a single run (`-XX:AOTCacheOutput`)."""


VARIABLE = "UNDERSTUDY_CLASS_CACHE"
_OFF = ("off", "0", "no", "false")
_HOLDS = "classes of a job by DataFrames, without MLlib"
"""What a cache holds. If this changes, a cache of an earlier release is made anew."""
_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""Leaves out the verification of classes, a second of the start. Spark's classes are from pip, as our own code is. The
classes in a cache have been verified, and Java uses and makes one only with the verification."""
SUFFIX = ".aot"
"""Suffix of the file of a cache."""


def cache_file(java: JavaRuntime, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of the cache for this Java and Spark, made or not; None if there can be none."""
    wanted = environment.get(VARIABLE, "")
    if wanted.lower() in _OFF or java.version is None or java.version < FIRST_JAVA:
        return None
    if wanted:
        return Path(wanted).absolute() / _name(java)
    base = environment.get("XDG_CACHE_HOME") or (environment["HOME"] + "/.cache" if "HOME" in environment else "")
    return Path(base) / "understudy" / _name(java) if base.startswith("/") else None


def flags(java: JavaRuntime) -> tuple[str, ...]:
    """Return the flags with which Java uses the cache, or starts faster if there is none."""
    file = cache_file(java)
    return (f"-XX:AOTCache={file}",) if file is not None and file.is_file() else _UNVERIFIED


def _name(java: JavaRuntime) -> str:
    release = java.home / "release"
    facts = (
        str(java.home),
        release.read_text(errors="replace") if release.is_file() else "",
        str(Path(pyspark.__file__).parent),
        pyspark.__version__,
        _HOLDS,
    )
    return f"spark-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}{SUFFIX}"
