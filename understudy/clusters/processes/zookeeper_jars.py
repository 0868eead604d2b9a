"""Finds the jars of the embedded ZooKeeper.

Our wheel contains them. An editable installation does not: it finds them in PySpark. This module imports only the
standard library, because the build of the wheel loads it before anything is installed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

PATTERNS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "slf4j-api-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
)
"""Jars that a standalone server needs."""
VARIABLE = "UNDERSTUDY_ZOOKEEPER_JARS"
"""Environment variable that names another folder with the jars."""
PACKAGED = Path(__file__).parent / "jars"
"""Folder that has the jars in a wheel, and their licences in every installation."""


class JarsNotFound(Exception):
    """A jar of ZooKeeper is missing. The message names it, the folder, and what to do."""


def zookeeper_jars(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Find the five jars, without importing PySpark: in the folder that the variable names, in our wheel, in PySpark.

    Raises:
        JarsNotFound: there is no folder, or the first of them lacks a jar.
    """
    folder = jar_folder(environment)
    jars = []
    for pattern in PATTERNS:
        found = sorted(folder.glob(pattern))
        if not found:
            raise JarsNotFound(f"no {pattern} in {folder}; {_ADVICE}")
        jars.append(found[-1])
    return tuple(jars)


_ADVICE = f"install the wheel of kafka-understudy, which has ZooKeeper's jars, or PySpark, or set {VARIABLE}"


def jar_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in which `zookeeper_jars` looks for the jars.

    Raises:
        JarsNotFound: there is no folder.
    """
    named = environment.get(VARIABLE)
    if named:
        return Path(named)
    if any(PACKAGED.glob("*.jar")):
        return PACKAGED
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsNotFound(f"there are no jars of ZooKeeper; {_ADVICE}")
    return Path(spec.origin).parent / "jars"
