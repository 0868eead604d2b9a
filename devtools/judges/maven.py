"""Fetches Apache Kafka 3.9.1, and old versions of Apache ZooKeeper, by their Maven coordinates, once, into a cache
outside the repository.

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

VERSION = "3.9.1"
TIMEOUT_S = 600

# Without Kafka Connect, which the tools need for one command only; with log4j, as Kafka's own download has.
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>understudy</groupId>
  <artifactId>apache-kafka</artifactId>
  <version>{VERSION}</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version>
      <exclusions>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-api</artifactId></exclusion>
        <exclusion><groupId>org.apache.kafka</groupId><artifactId>connect-runtime</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


_CONNECT = ("connect-api", "connect-runtime")


def _dependency(group: str, artifact: str, version: str, classifier: str = "", without: Sequence[str] = ()) -> str:
    ends = f"<classifier>{classifier}</classifier>" if classifier else ""
    if without:
        each = (f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for name in without)
        ends += f"<exclusions>{''.join(each)}</exclusions>"
    return (
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{ends}</dependency>"
    )


_WITH_TESTS = (
    "kafka_2.13",
    "kafka-clients",
    "kafka-server-common",
    "kafka-metadata",
    "kafka-raft",
    "kafka-storage",
    "kafka-tools",
)
_DEPENDENCIES = (
    *(_dependency("org.apache.kafka", artifact, VERSION, "test", _CONNECT) for artifact in _WITH_TESTS),
    _dependency("org.apache.kafka", "kafka_2.13", VERSION),
    _dependency("org.apache.kafka", "kafka-tools", VERSION, without=_CONNECT),
    _dependency("org.junit.platform", "junit-platform-console-standalone", "1.10.2"),
    _dependency("org.mockito", "mockito-core", "5.10.0"),
    _dependency("org.hamcrest", "hamcrest", "2.2"),
    _dependency("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    _dependency("org.slf4j", "slf4j-reload4j", "1.7.36"),
    _dependency("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    _dependency("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
)
# Kafka's brokers and clients with their published tests, and what these need to run; versions as in Kafka's build.
TESTS_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>understudy</groupId>
  <artifactId>apache-kafka-tests</artifactId>
  <version>{VERSION}</version>
  <dependencies>
{chr(10).join(_DEPENDENCIES)}
  </dependencies>
</project>
"""


ZOOKEEPERS = ("3.4.14", "3.5.10", "3.8.4")
"""Versions of ZooKeeper beside our own 3.9: the last of 3.4 and of 3.5, and the one that Kafka 3.9.1 comes with."""

_ZOOKEEPER_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>understudy</groupId>
  <artifactId>apache-zookeeper</artifactId>
  <version>{version}</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>{version}</version>
      <exclusions>
        <exclusion><groupId>io.netty</groupId><artifactId>*</artifactId></exclusion>
        <exclusion><groupId>ch.qos.logback</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version>
    </dependency>
    <dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
  </dependencies>
</project>
"""
# ZooKeeper 3.8 needs the last two and does not name them; without configuration Logback logs at DEBUG.

POM_OF = """\
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

_OLD_KAFKA_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>understudy</groupId>
  <artifactId>apache-kafka</artifactId>
  <version>{version}</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId><version>{version}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-log4j12</artifactId><version>1.7.30</version></dependency>
  </dependencies>
</project>
"""


class NotFetched(Exception):
    """Artifacts could not be fetched. The message names the reason and a remedy."""


def kafka_libs(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of Apache Kafka 3.9.1 and its tools: `KAFKA_LIBS`, else the cache, else fetched into it.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    if named := environment.get("KAFKA_LIBS"):
        if not any(Path(named).glob("kafka-tools-3.9.*.jar")):
            raise NotFetched(
                f"KAFKA_LIBS={named} holds no kafka-tools-3.9.*.jar; give the libs folder of a download, or unset it"
            )
        return Path(named)
    return _cached(f"kafka-{VERSION}", _KAFKA, POM, environment)


def kafka_test_libs(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of Apache Kafka 3.9.1 and of its tests: the cache, else fetched into it.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    return _cached(f"kafka-and-tools-tests-{VERSION}", _KAFKA, TESTS_POM, environment)


def old_kafka_libs(version: str, scala: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of an older release of Apache Kafka, whose tools are in the jar of its broker.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    return _cached(
        f"kafka-{version}", f"Apache Kafka {version}", _OLD_KAFKA_POM.format(version=version, scala=scala), environment
    )


def zookeeper_jars(version: str, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The jars of a version of Apache ZooKeeper: from the cache, else fetched into it.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    what = f"Apache ZooKeeper {version}"
    folder = _cached(f"zookeeper-{version}", what, _ZOOKEEPER_POM.format(version=version), environment)
    return tuple(sorted(folder.glob("*.jar")))


def jars(name: str, artifacts: Sequence[tuple[str, str, str]], environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of some artifacts and of what they need: the cache, else fetched into it.

    Args:
        name: the folder's name in the cache; it has to change when a version does.
        artifacts: group, artifact and version of each.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    dependencies = "\n".join(_dependency(*each) for each in artifacts)
    return _cached(name, name, POM_OF.format(name=name, dependencies=dependencies), environment)


_KAFKA = f"Apache Kafka {VERSION}"


def _cached(name: str, what: str, pom: str, environment: Mapping[str, str]) -> Path:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"
    libs = cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kafka.lock").open("w") as lock:
        # Several test processes may ask at the same time; the first one fetches.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.is_dir():
            _fetch(libs, what, pom)
    return libs


def _fetch(libs: Path, what: str, pom: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        otherwise = ", or give its jars with KAFKA_LIBS" if what == _KAFKA else ""
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
