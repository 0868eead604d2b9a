"""The programs, one entry for each: its version, how it is fetched and built, and how it is started."""

from __future__ import annotations

import json
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from devtools.building import NotBuilt, run_build, tool
from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.kafka_jars import NotFetched, jars

SOURCES: Final = Path(__file__).parent / "sources"
BEGIN_TIMEOUT_S: Final = 120.0
_JAVA: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_RETRY_S: Final = 0.5
_REQUEST_TIMEOUT_S: Final = 30.0

Artifact: TypeAlias = tuple[str, str, str]
"""Group, artifact and version of Maven."""


class Place(NamedTuple):
    """What a run gives to its program.

    Attributes:
        bootstrap: `host:port` of each broker, separated by commas.
        source, sink: the topic that it reads, and the one that it writes.
        folder: an empty one for its files.
    """

    bootstrap: str
    source: str
    sink: str
    folder: Path


def _nothing() -> None:
    pass


class Launch(NamedTuple):
    """How a program is started at its place.

    Attributes:
        command: its command line.
        begin: is called when the process runs, for example to give it its work.
    """

    command: list[str]
    begin: Callable[[], None] = _nothing


Start: TypeAlias = Callable[[Place], Launch]
Build: TypeAlias = Callable[[Path], Start]
"""Fetches and builds a program in a folder of its own, and returns how it is started; raises NotBuilt."""


class Program(NamedTuple):
    """One program.

    Attributes:
        version: the pinned versions of what was not written here.
        does: how it copies the topic, for the page.
        sink: the name of the topic that it writes.
        note: what its row needs to be understood, for the page.
    """

    version: str
    does: str
    build: Build
    sink: str = "{source}-copied"
    note: str = ""


# ------------------------------------------------------------------ how programs are had


def _of_python(script: str, *packages: str) -> Build:
    """A script of `sources`, with pinned packages in a folder of their own."""

    def build(folder: Path) -> Start:
        libs = folder / "packages"
        run_build([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(libs), *packages], folder)
        command = ["env", f"PYTHONPATH={libs}", sys.executable, str(SOURCES / script)]
        return lambda place: Launch([*command, place.bootstrap, place.source, place.sink])

    return build


def _of_go(name: str) -> Build:
    """A module of `sources`, whose go.sum pins what it needs."""

    def build(folder: Path) -> Start:
        binary = folder / name
        run_build([tool("go"), "build", "-o", str(binary), "."], SOURCES / name)
        return lambda place: Launch([str(binary), place.bootstrap, place.source, place.sink])

    return build


def _of_rust(name: str) -> Build:
    """A crate of `sources`, whose Cargo.lock pins what it needs."""

    def build(folder: Path) -> Start:
        cargo = [tool("cargo"), "build", "--release", "--locked", "--quiet", "--target-dir", str(folder)]
        run_build(cargo, SOURCES / name)
        return lambda place: Launch([str(folder / "release" / name), place.bootstrap, place.source, place.sink])

    return build


def _of_java(name: str, cache: str, *artifacts: Artifact) -> Build:
    """A class of `sources`, with the jars of Maven artifacts."""

    def build(folder: Path) -> Start:
        libs = _jars(cache, artifacts)
        run_build([tool("javac"), "-cp", f"{libs}/*", "-d", str(folder), str(SOURCES / f"{name}.java")], folder)
        java = [tool("java"), *_JAVA, "-cp", f"{folder}:{libs}/*", name]
        return lambda place: Launch([*java, place.bootstrap, place.source, place.sink, str(place.folder)])

    return build


def _jars(cache: str, artifacts: Sequence[Artifact]) -> Path:
    try:
        return jars(cache, artifacts)
    except NotFetched as why:
        raise NotBuilt(str(why)) from None


# ------------------------------------------------------------------ Kafka Connect and MirrorMaker 2

KAFKA: Final = "3.9.1"
KAFKA_4: Final = "4.4.0"
_CONNECT: Final = (
    *(
        ("org.apache.kafka", artifact, KAFKA)
        for artifact in ("connect-runtime", "connect-file", "connect-json", "connect-mirror")
    ),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)
_LOG4J: Final = {
    "log4j.rootLogger": "WARN, stdout",
    "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.stdout.layout.ConversionPattern": "%d %p %m (%c)%n",
}
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"


def _connect(folder: Path) -> Start:
    """A worker of Kafka Connect in distributed mode: a sink writes the topic into a file, a source reads that file."""
    libs, java = _jars(f"connect-{KAFKA}", _CONNECT), tool("java")

    def start(place: Place) -> Launch:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        worker = {
            "bootstrap.servers": place.bootstrap,
            "group.id": "connect-cluster",
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://{address}",
            "plugin.discovery": "service_load",
        }
        copied = str(place.folder / "records.txt")
        of_connect = "org.apache.kafka.connect.file"
        sink = {"connector.class": f"{of_connect}.FileStreamSinkConnector", "topics": place.source, "file": copied}
        source = {"connector.class": f"{of_connect}.FileStreamSourceConnector", "topic": place.sink, "file": copied}

        def begin() -> None:
            for name, config in (("to-file", sink), ("from-file", source)):
                _post(f"http://{address}/connectors", {"name": name, "config": config})

        command = _with_properties(java, libs, place, "org.apache.kafka.connect.cli.ConnectDistributed", worker)
        return Launch(command, begin)

    return start


def _mirror_maker(folder: Path) -> Start:
    """MirrorMaker 2 as a process of its own, from the cluster to itself under another name."""
    libs, java = _jars(f"connect-{KAFKA}", _CONNECT), tool("java")

    def start(place: Place) -> Launch:
        config = {
            "clusters": "one, two",
            "one.bootstrap.servers": place.bootstrap,
            "two.bootstrap.servers": place.bootstrap,
            "one->two.enabled": "true",
            "one->two.topics": place.source,
            "two->one.enabled": "false",
            "replication.factor": "3",
            "refresh.topics.interval.seconds": "5",
            "offset.flush.interval.ms": "1000",
        }
        return Launch(_with_properties(java, libs, place, "org.apache.kafka.connect.mirror.MirrorMaker", config))

    return start


def _with_properties(java: str, libs: Path, place: Place, main: str, config: Mapping[str, str]) -> list[str]:
    """The command line of a class of Kafka that takes a file of properties."""
    properties, logging = place.folder / "its.properties", place.folder / "log4j.properties"
    properties.write_text(format_properties(config), encoding="utf-8")
    logging.write_text(format_properties(_LOG4J), encoding="utf-8")
    configured = f"-Dlog4j.configuration={logging.as_uri()}"
    return [java, *_JAVA, configured, "-cp", f"{libs}/*", main, str(properties)]


def _post(url: str, body: Mapping[str, object]) -> None:
    """Send a JSON object, again until it is accepted. Raises NotBuilt if that takes too long."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    deadline = time.monotonic() + BEGIN_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S).close()
        except urllib.error.HTTPError as error:
            if "already exists" in error.read().decode(errors="replace"):
                return  # an earlier request, whose answer was lost
        except OSError:
            pass
        else:
            return
        time.sleep(_RETRY_S)
    raise NotBuilt(f"{url} did not accept the configuration within {BEGIN_TIMEOUT_S:g} s")


# ------------------------------------------------------------------ Spark and kcat

SPARK_CONNECTOR: Final = "4.2.0"
PYSPARK: Final = "4.3.0"
FLINK: Final = "2.2.0"
FLINK_CONNECTOR: Final = "5.0.0-2.2"


def _spark(folder: Path) -> Start:
    """A structured stream of PySpark with its Kafka connector."""
    artifact = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_CONNECTOR)
    libs = _jars(f"spark-kafka-{SPARK_CONNECTOR}", [artifact])
    needed = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
    paths = [str(path) for path in sorted(libs.glob("*.jar")) if path.name.startswith(needed)]
    command = [sys.executable, str(SOURCES / "spark_copy.py"), ",".join(paths)]
    return lambda place: Launch([*command, place.bootstrap, place.source, place.sink, str(place.folder)])


def _kcat(folder: Path) -> Start:
    """A kcat that is a member of a group, and a kcat that produces what the first one prints."""
    kcat = tool("kcat", "Debian's package kcat")
    reading = f'"{kcat}" -q -E -b "$1" -X auto.offset.reset=earliest -u -G copiers "$2"'
    writing = f'"{kcat}" -q -E -b "$1" -X acks=all -X message.timeout.ms=120000 -P -t "$3"'
    command = [shutil.which("sh") or "/bin/sh", "-c", f"{reading} | {writing}", "kcat"]
    return lambda place: Launch([*command, place.bootstrap, place.source, place.sink])


# ------------------------------------------------------------------ the table

PROGRAMS: Final[Mapping[str, Program]] = {
    "Kafka Streams 3.9": Program(
        KAFKA,
        "a topology with a repartition topic and a counting store with its changelog, at least once, two threads",
        _of_java("StreamsCopy", f"kafka-streams-{KAFKA}", ("org.apache.kafka", "kafka-streams", KAFKA)),
    ),
    "Kafka Streams 4": Program(
        KAFKA_4,
        "the same topology",
        _of_java("StreamsCopy", f"kafka-streams-{KAFKA_4}", ("org.apache.kafka", "kafka-streams", KAFKA_4)),
    ),
    "Kafka Connect": Program(
        KAFKA,
        "a distributed worker with a FileStreamSink that writes a file and a FileStreamSource that reads it",
        _connect,
    ),
    "MirrorMaker 2": Program(
        KAFKA, "`one->two`, with both names for the same cluster", _mirror_maker, sink="one.{source}"
    ),
    "Spark": Program(
        f"PySpark {PYSPARK}, spark-sql-kafka-0-10_2.13 {SPARK_CONNECTOR}",
        "a structured stream from `kafka` to `kafka` with a checkpoint",
        _spark,
    ),
    "Flink": Program(
        f"{FLINK}, flink-connector-kafka {FLINK_CONNECTOR}",
        "a KafkaSource and a KafkaSink in a local cluster, at least once, with a checkpoint every second",
        _of_java(
            "FlinkCopy",
            f"flink-kafka-{FLINK_CONNECTOR}",
            ("org.apache.flink", "flink-connector-kafka", FLINK_CONNECTOR),
            *(("org.apache.flink", f"flink-{each}", FLINK) for each in ("streaming-java", "clients", "connector-base")),
        ),
    ),
    "Spring for Apache Kafka": Program(
        "4.1.2",
        "a listener container with two threads and a template, which acknowledges each record",
        _of_java("SpringCopy", "spring-kafka-4.1.2", ("org.springframework.kafka", "spring-kafka", "4.1.2")),
    ),
    "Vert.x Kafka client": Program(
        "5.0.7",
        "a consumer that commits a batch when its copies are acknowledged, and a producer",
        _of_java("VertxCopy", "vertx-kafka-5.0.7", ("io.vertx", "vertx-kafka-client", "5.0.7")),
    ),
    "Camel": Program(
        "4.22.0",
        "a route from `kafka:` to `kafka:`",
        _of_java(
            "CamelCopy",
            "camel-kafka-4.22.0",
            *(("org.apache.camel", artifact, "4.22.0") for artifact in ("camel-kafka", "camel-main")),
        ),
    ),
    "Reactor Kafka": Program(
        "1.3.23",
        "a receiver and a sender, which acknowledges each record",
        _of_java("ReactorCopy", "reactor-kafka-1.3.23", ("io.projectreactor.kafka", "reactor-kafka", "1.3.23")),
    ),
    "Pekko Connectors Kafka": Program(
        "1.1.0",
        "a committable source, a flow that produces and a flow that commits",
        _of_java(
            "PekkoCopy",
            "pekko-kafka-1.1.0",
            ("org.apache.pekko", "pekko-connectors-kafka_2.13", "1.1.0"),
            ("org.apache.pekko", "pekko-stream_2.13", "1.1.5"),
        ),
    ),
    "FastStream": Program(
        "0.7.8",
        "a subscriber of a group whose answer is published, over confluent-kafka",
        _of_python("faststream_copy.py", "faststream[confluent]==0.7.8"),
    ),
    "Quix Streams": Program(
        "3.28.1",
        "a streaming dataframe to a topic, at least once, with a state store and its changelog",
        _of_python("quix_copy.py", "quixstreams==3.28.1"),
    ),
    "faust-streaming": Program(
        "0.15.3", "an agent that sends each event on", _of_python("faust_copy.py", "faust-streaming==0.15.3")
    ),
    "bytewax": Program(
        "0.21.1",
        "a dataflow from a Kafka source to a Kafka sink",
        _of_python("bytewax_copy.py", "bytewax==0.21.1", "confluent-kafka==2.16.1"),
    ),
    "kafka-go": Program(
        "0.4.51",
        "a Reader of a group and a Writer with RequireAll",
        _of_go("kafka-go"),
        note="it joins its group as another member, for which the coordinator waits until the session of the first one "
        "has expired after 30 s. Beside brokers of Apache Kafka 3.9.1 its longest pause was as long.",
    ),
    "confluent-kafka-go": Program(
        "2.11.1", "a member of a group and an idempotent producer", _of_go("confluent-kafka-go")
    ),
    "Watermill": Program("watermill-kafka 3.0.6", "a router from a subscriber to a publisher", _of_go("watermill")),
    "rskafka": Program(
        "0.6.0", "a stream of each partition and a client of each partition; it has no groups", _of_rust("rskafka")
    ),
    "kcat": Program(
        "1.7.1",
        "`kcat -E -G` piped into `kcat -E -P`, with acks=all",
        _kcat,
        note="its producer reads 1 KiB of its standard input at a time, so that records arrive in groups of about 250. "
        "Without `-E` it ends when each of its connections has been closed once.",
    ),
}
"""By name."""

NOT_SERVED: Final[Mapping[str, str]] = {
    "Karapace": "no release on PyPI",
    "kafka_exporter": "not served by the Go module proxy that was used",
    "kminion": "not served by the Go module proxy that was used",
}
"""Programs that could not be had when this was written, with the reason."""
