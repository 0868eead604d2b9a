"""The folder of Kafka's jars: one that was given, one from the environment, or one that Maven fills once."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.clusters.processes.kafka_jars import NotFetched, kafka_libs_of

MAVEN = """#!/bin/sh
grep -q '<artifactId>kafka_2.13</artifactId><version>4.2.0</version>' pom.xml || exit 3
mkdir libs && touch libs/kafka_2.13-4.2.0.jar
"""


def download(folder: Path, version: str, logger: str = "slf4j-reload4j-1.7.36.jar") -> Path:
    folder.mkdir()
    for name in (f"kafka_2.13-{version}.jar", logger):
        (folder / name).write_bytes(b"")
    return folder


def test_a_version_is_taken_from_the_folder_that_has_it(tmp_path: Path) -> None:
    old = download(tmp_path / "old", "3.9.1")
    new = download(tmp_path / "new", "4.2.0", "log4j-slf4j-impl-2.25.3.jar")
    named = download(tmp_path / "named", "4.0.0")
    environment = {"KAFKA_LIBS": str(named)}
    for version, folder in (("3.9.1", old), ("4.2.0", new), ("4.0.0", named)):
        assert kafka_libs_of(version, [old, new], environment=environment) == folder


def test_maven_fills_the_cache_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mvn").write_text(MAVEN)
    (programs / "mvn").chmod(0o755)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    found = kafka_libs_of("4.2.0", environment=environment)
    assert [path.name for path in found.iterdir()] == ["kafka_2.13-4.2.0.jar"]
    with pytest.raises(
        NotFetched, match=r"Apache Kafka 3\.9\.1 was looked for in .*: mvn could not fetch Apache Kafka"
    ):
        kafka_libs_of("3.9.1", environment=environment)
    (programs / "mvn").unlink()
    assert kafka_libs_of("4.2.0", environment=environment) == found
