"""Fetches Apache Kafka 3.9.1 by its Maven coordinates, once, into a cache outside the repository.

Maven is configured with its repositories and verifies what it downloads; nothing here names a host.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
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


class NotFetched(Exception):
    """Apache Kafka could not be fetched. The message names the reason and a remedy."""


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
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"
    libs = cache / f"kafka-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "kafka.lock").open("w") as lock:
        # Several test processes may ask at the same time; the first one fetches.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not libs.is_dir():
            _fetch(libs)
    return libs


def _fetch(libs: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotFetched(
            "no mvn on the PATH to fetch Apache Kafka with; install Maven, or give its jars with KAFKA_LIBS"
        )
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix="fetching-") as folder:
        (Path(folder) / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"]
        try:
            run = subprocess.run(
                [maven, "-B", "-q", *goal], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise NotFetched(f"mvn did not fetch Apache Kafka {VERSION} within {TIMEOUT_S} s") from None
        if run.returncode != 0:
            raise NotFetched(f"mvn could not fetch Apache Kafka {VERSION}:\n{(run.stdout + run.stderr)[-2000:]}")
        (Path(folder) / "libs").rename(libs)
