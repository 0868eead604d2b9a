"""Makes an archive of the classes that Apache Kafka loads (CDS, JEP 310), with which its brokers and tools start in
half the time.

The Java from pip has no archive at all, so that each JVM would parse and verify some 8,000 classes. The archive is a
file of about 60 MB in `build/`; its name has a checksum of the Java, its options and the jars that it is for. One
broker and a few tools are run for the list of classes, which takes 10 seconds once.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

BUILD = Path(__file__).parents[2] / "build"
TIMEOUT_S = 240
_TOPIC = ("--topic", "archived")
_TOOLS = (
    ("org.apache.kafka.tools.TopicCommand", "--create", *_TOPIC),
    ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"),
    ("kafka.tools.ConsoleProducer", *_TOPIC),
    ("org.apache.kafka.tools.consumer.ConsoleConsumer", *_TOPIC, "--from-beginning", "--max-messages", "1"),
    ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups"),
)
"""Tools that load most classes of all tools: the admin client, the producer, and a consumer with a group."""
_NUMBERED = re.compile(r" id: \d+.*")
"""Numbers of a class and of its superclass, which differ between processes."""


class NotArchived(Exception):
    """The archive could not be made. The message has the output of the command that failed."""


def with_class_archive(kafka: ApacheKafka, folder: Path = BUILD) -> ApacheKafka:
    """Return `kafka` with the JVM options that map the archive in `folder`, which is made if it is missing.

    Raises:
        NotArchived: a tool or the making of the archive failed.
    """
    archive = folder / f"kafka-classes-{_checksum(kafka)}.jsa"
    folder.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        # Several test processes may ask at the same time; the first one makes it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.is_file():
            _make(kafka, archive)
    # Java runs without an archive that does not fit; what it logs of that would be in the output of the tools.
    return replace(kafka, jvm_options=(*kafka.jvm_options, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"))


def _checksum(kafka: ApacheKafka) -> str:
    release = kafka.java.home / "release"
    jars = [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted(kafka.libs.glob("*.jar"))]
    facts = (
        str(kafka.java.home),
        release.read_text(errors="replace") if release.is_file() else "",
        kafka.jvm_options,
        str(kafka.libs),
        jars,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _make(kafka: ApacheKafka, archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="archiving-") as name:
        folder = Path(name)
        _run_kafka(
            replace(kafka, jvm_options=(*kafka.jvm_options, f"-XX:DumpLoadedClassList={folder}/%p.classes")), folder
        )
        classes, made = folder / "all.classes", folder / archive.name
        texts = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.classes"))]
        classes.write_text("".join(f"{line}\n" for line in merged(texts)), encoding="utf-8")
        java = [str(kafka.java.executable), *kafka.jvm_options, "-Xshare:dump"]
        _succeed(
            [*java, f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}", "-cp", f"{kafka.libs}/*"]
        )
        made.replace(archive)


def _run_kafka(kafka: ApacheKafka, folder: Path) -> None:
    """Start a broker, and run the tools on it."""
    with LocalCluster(1, kafka_brokers={1: kafka}, directory=folder / "cluster", properties=SMALL_BROKER) as cluster:
        for main_class, *arguments in _TOOLS:
            _succeed(kafka.command(main_class, *arguments, "--bootstrap-server", cluster.bootstrap), "a record\n")


def merged(lists: Iterable[str]) -> list[str]:
    """Merge the lists of classes that several JVMs have loaded; without the classes of custom class loaders, which the
    numbers of other classes identify."""
    lines = (line for text in lists for line in text.splitlines() if " source: " not in line)
    return list(dict.fromkeys(_NUMBERED.sub("", line) for line in lines if not line.startswith("#")))


def _succeed(command: list[str], stdin: str = "") -> None:
    run = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S)
    if run.returncode != 0:
        raise NotArchived(f"{' '.join(command)} exited with {run.returncode}:\n{(run.stdout + run.stderr)[-4000:]}")
