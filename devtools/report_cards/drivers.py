"""The drivers of examples/clients as processes: how each is built and started, and the lines that it prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from devtools.building import NotBuilt, run_build, tool
from devtools.judges.maven import kafka_libs
from devtools.report_cards.events import Event, Line, NotAnEvent, parse
from understudy.clusters.processes.kafka_jars import NotFetched

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
END_TIMEOUT_S = 150
"""A driver may wait a minute for its last acknowledgements, ten seconds for its last records, and then closes."""


def python_driver(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: [sys.executable, str(EXAMPLES / f"{name}.py")]


def go_driver(name: str, package: str = ".") -> Callable[[Path], list[str]]:
    def build(folder: Path) -> list[str]:
        binary = folder / name
        run_build([tool("go"), "build", "-o", str(binary), package], EXAMPLES / name)
        return [str(binary)]

    return build


def java_driver(name: str) -> Callable[[Path], list[str]]:
    def build(folder: Path) -> list[str]:
        try:
            libs = kafka_libs()
        except NotFetched as why:
            raise NotBuilt(str(why)) from None
        java, javac = tool("java"), tool("javac")
        source = EXAMPLES / "java" / f"{name}.java"
        run_build([javac, "-cp", f"{libs}/*", "-d", str(folder), str(source)], folder)
        return [java, "-Xmx128m", "-XX:+UseSerialGC", "-cp", f"{folder}:{libs}/*", name]

    return build


def node_driver(name: str, program: str = "drive.mjs") -> Callable[[Path], list[str]]:
    def build(folder: Path) -> list[str]:
        for source in ("package.json", program):
            shutil.copy(EXAMPLES / name / source, folder)
        run_build([tool("npm"), "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], folder)
        return [tool("node"), str(folder / program)]

    return build


DRIVERS: Mapping[str, Callable[[Path], list[str]]] = {
    "kafka-python": python_driver("drive_kafka_python"),
    "confluent-kafka": python_driver("drive_confluent_kafka"),
    "aiokafka": python_driver("drive_aiokafka"),
    "Apache Kafka's Java client": java_driver("DriveJava"),
    "franz-go": go_driver("franz-go"),
    "sarama": go_driver("sarama"),
    "kafkajs": node_driver("kafkajs"),
}
"""By client: builds its driver in a folder of its own, and returns the command; raises NotBuilt."""

MEMBERS: Mapping[str, Callable[[Path], list[str]]] = {
    "kafka-python": python_driver("member_kafka_python"),
    "confluent-kafka": python_driver("member_confluent_kafka"),
    "aiokafka": python_driver("member_aiokafka"),
    "Apache Kafka's Java client": java_driver("MemberJava"),
    "franz-go": go_driver("franz-go", "./member"),
    "sarama": go_driver("sarama", "./member"),
    "kafkajs": node_driver("kafkajs", "member.mjs"),
}
"""The same of the programs that are members of a group."""


class Driver:
    """A running driver; a context manager that ends the process.

    Args:
        command: the program with its first arguments; bootstrap servers, topic and group are added.
        log: the file for its standard error.
    """

    def __init__(self, client: str, command: list[str], bootstrap: str, topic: str, log: Path, group: str = "") -> None:
        self.client = client
        self.topic = topic
        self.trouble: list[str] = []
        self._lines: list[Line] = []
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, bootstrap, topic, *([group] if group else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, name=topic, daemon=True)
        self._reader.start()

    @property
    def lines(self) -> tuple[Line, ...]:
        """What it has printed up to now."""
        return tuple(self._lines)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ask_to_end(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self, timeout_s: float) -> None:
        """Wait for the driver's end; if it does not end in time, kill it and note that as trouble."""
        try:
            code = self._process.wait(timeout_s)
            if code != 0:
                self.trouble.append(f"the driver ended with exit code {code}")
        except subprocess.TimeoutExpired:
            self.trouble.append("the driver had to be killed at the end")
            self._process.kill()
            self._process.wait()
        self._reader.join(10)

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.has_ended:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            at_ms = now_ms()
            try:
                event: Event = parse(text)
            except NotAnEvent as error:
                self.trouble.append(str(error))
            else:
                self._lines.append(Line(at_ms, event))


def now_ms() -> int:
    """The time of a monotonic clock, in ms."""
    return time.monotonic_ns() // 1_000_000


def end_all(drivers: list[Driver]) -> None:
    """Ask all drivers to end, and wait for them."""
    for driver in drivers:
        driver.ask_to_end()
    deadline = time.monotonic() + END_TIMEOUT_S
    for driver in drivers:
        driver.wait(max(0.1, deadline - time.monotonic()))
