"""Finds the jars of Apache Kafka and of other Java programs: in a folder, in a cache, or fetched by Maven into it.

Maven is configured with its repositories and verifies what it downloads; nothing here names a host.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

VERSION: Final = "3.9.1"
"""The version of Apache Kafka that our brokers are compared with: the last one with ZooKeeper mode."""
NEWEST_VERSION: Final = "4.2.0"
"""The newest version of Apache Kafka whose KRaft clusters tests run."""
TIMEOUT_S: Final = 600

_BROKER_JAR: Final = "kafka_2.13-{version}.jar"
_LOGGERS: Final = ("slf4j-reload4j-*.jar", "log4j-slf4j-impl-*.jar")
"""Bindings of slf4j: to log4j 1, as in downloads of Kafka 3, and to log4j 2, as in downloads of Kafka 4."""
_ARTIFACTS: Final = ("kafka_2.13", "kafka-tools", "kafka-shell")
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>understudy</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


class NotFetched(Exception):
    """Artifacts could not be fetched. The message names the reason and a remedy."""


def kafka_libs_of(version: str, folders: Sequence[Path] = (), *, environment: Mapping[str, str] = os.environ) -> Path:
    """Return a folder with the jars of a version of Apache Kafka, its tools and a logger.

    The first of `folders`, and then of the folder in `KAFKA_LIBS`, that has this version; otherwise the cache, which
    Maven fills.

    Raises:
        NotFetched: one of `folders` has no Kafka or no logger, or no folder has this version and Maven cannot fetch it.
    """
    named = environment.get("KAFKA_LIBS")
    for folder in (*folders, *([Path(named)] if named else [])):
        if not any(folder.glob(_BROKER_JAR.format(version="*"))):
            raise NotFetched(
                f"{folder} holds no kafka_2.13-*.jar; give the folder `libs` of a download of Apache Kafka"
            )
        if not (folder / _BROKER_JAR.format(version=version)).is_file():
            continue
        if not any(any(folder.glob(logger)) for logger in _LOGGERS):
            raise NotFetched(
                f"{folder} holds neither {' nor '.join(_LOGGERS)}, with which Kafka writes its logs; give the whole "
                "folder `libs` of a download, or leave it out so that Maven fetches all jars"
            )
        return folder.absolute()
    cached = f"kraft-{version}"
    artifacts = [("org.apache.kafka", name, version) for name in _ARTIFACTS]
    pom = _pom(cached, [*artifacts, ("org.slf4j", "slf4j-reload4j", "1.7.36")])
    otherwise = ", or give its jars with --kafka-libs"
    try:
        return cached_jars(cached, f"Apache Kafka {version}", pom, environment, otherwise=otherwise)
    except NotFetched as error:
        looked = ", ".join(map(str, folders)) or "no folder was given"
        raise NotFetched(
            f"Apache Kafka {version} was looked for in --kafka-libs ({looked}), KAFKA_LIBS ({named or 'not set'}) and "
            f"the cache {cache_folder(environment)}: {error}"
        ) from None


def jars(name: str, artifacts: Sequence[tuple[str, str, str]], environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the jars of some artifacts and of what they need: the cache, else fetched into it.

    Args:
        name: the folder's name in the cache; it has to change when a version does.
        artifacts: group, artifact and version of each.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    return cached_jars(name, name, _pom(name, artifacts), environment)


def dependency(group: str, artifact: str, version: str, classifier: str = "", without: Sequence[str] = ()) -> str:
    """Return a dependency as a line of a POM.

    Args:
        without: artifacts of the same group that it would need, and that are left out.
    """
    ends = f"<classifier>{classifier}</classifier>" if classifier else ""
    if without:
        each = (f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for name in without)
        ends += f"<exclusions>{''.join(each)}</exclusions>"
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{ends}</dependency>"
    )


def _pom(name: str, artifacts: Sequence[tuple[str, str, str]]) -> str:
    return _POM.format(name=name, dependencies="\n".join(dependency(*each) for each in artifacts))


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that keeps what Maven has fetched."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"


def cached_jars(
    name: str, what: str, pom: str, environment: Mapping[str, str] = os.environ, *, otherwise: str = ""
) -> Path:
    """Return the folder with the jars of a POM: the cache, else fetched into it.

    Args:
        name: the folder's name in the cache.
        what: the artifacts in words, for messages.
        otherwise: ends the advice to install Maven, for example with another way to give the jars.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    cache = cache_folder(environment)
    libs = cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kafka.lock").open("w") as lock:
        # Several processes may ask at the same time; the first one fetches.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.is_dir():
            _fetch(libs, what, pom, otherwise)
    return libs


def _fetch(libs: Path, what: str, pom: str, otherwise: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotFetched(f"no mvn on the PATH to fetch {what} with; install Maven{otherwise}")
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix="fetching-") as folder:
        (Path(folder) / "pom.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"]
        try:
            run = subprocess.run(
                [maven, "-B", "-q", *goal], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise NotFetched(f"mvn did not fetch {what} within {TIMEOUT_S} s") from None
        if run.returncode != 0:
            raise NotFetched(f"mvn could not fetch {what}:\n{(run.stdout + run.stderr)[-2000:]}")
        (Path(folder) / "libs").rename(libs)
