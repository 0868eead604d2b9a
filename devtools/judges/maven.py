"""Maven coordinates of Apache Kafka and its tests, of old releases of it, and of old versions of Apache ZooKeeper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from understudy.clusters.processes.kafka_jars import VERSION, NotFetched, cached_jars, dependency

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


_KAFKA = f"Apache Kafka {VERSION}"
_CONNECT = ("connect-api", "connect-runtime")


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
    *(dependency("org.apache.kafka", artifact, VERSION, "test", _CONNECT) for artifact in _WITH_TESTS),
    dependency("org.apache.kafka", "kafka_2.13", VERSION),
    dependency("org.apache.kafka", "kafka-tools", VERSION, without=_CONNECT),
    dependency("org.junit.platform", "junit-platform-console-standalone", "1.10.2"),
    dependency("org.mockito", "mockito-core", "5.10.0"),
    dependency("org.hamcrest", "hamcrest", "2.2"),
    dependency("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    dependency("org.slf4j", "slf4j-reload4j", "1.7.36"),
    dependency("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    dependency("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
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
    return cached_jars(f"kafka-{VERSION}", _KAFKA, POM, environment, otherwise=", or give its jars with KAFKA_LIBS")


def kafka_test_libs(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of Apache Kafka 3.9.1 and of its tests: the cache, else fetched into it.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    return cached_jars(f"kafka-and-tools-tests-{VERSION}", _KAFKA, TESTS_POM, environment)


def old_kafka_libs(version: str, scala: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of an older release of Apache Kafka, whose tools are in the jar of its broker.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    return cached_jars(
        f"kafka-{version}", f"Apache Kafka {version}", _OLD_KAFKA_POM.format(version=version, scala=scala), environment
    )


def zookeeper_jars(version: str, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The jars of a version of Apache ZooKeeper: from the cache, else fetched into it.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    what = f"Apache ZooKeeper {version}"
    folder = cached_jars(f"zookeeper-{version}", what, _ZOOKEEPER_POM.format(version=version), environment)
    return tuple(sorted(folder.glob("*.jar")))
