"""Runs one program beside a new cluster whose leaders, coordinator and controller are killed, and judges it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import confluent_kafka

from devtools.report_cards.drivers import now_ms
from devtools.report_cards.members import PARTITIONS, Feed
from devtools.report_cards.run import BROKERS, PROPERTIES, SETTLE_TIMEOUT_S, new_cluster
from devtools.report_cards.scenes import Scene, controller_killed, leader_killed
from devtools.software.judge import Arrival, Seen, judge
from devtools.software.programs import Place, Program, Start
from understudy.clusters.processes.local_cluster import LocalCluster

SOURCE: Final = "numbers"
OFFSETS_TOPIC: Final = "__consumer_offsets"
STEADY_TIMEOUT_S: Final = 240.0
"""Time within which a program has to have copied its first records: a Java virtual machine on a busy machine."""
STEADY: Final = 40
RECOVERY_TIMEOUT_S: Final = 120.0
"""Time within which a record has to arrive that was sent after a kill."""
DRAIN_TIMEOUT_S: Final = 120.0
"""Time within which the last acknowledged record has to arrive."""
END_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.1


class Process:
    """A running program with all processes that it starts; a context manager that ends them.

    Args:
        command: its command line.
        log: the file for what it prints.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)


class Arrivals:
    """Reads a topic from its beginning in a thread until `stop`; it commits nothing, so that only leaders matter."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._found: list[Arrival] = []
        self._values: set[int] = set()
        self.largest = -1
        """The largest number that has arrived."""
        self._stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "arrivals", "enable.auto.commit": False, "log_level": 0}
        )
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(topic, each, beginning) for each in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._read, name="arrivals", daemon=True)
        self._thread.start()

    @property
    def found(self) -> tuple[Arrival, ...]:
        return tuple(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def has_all(self, values: set[int]) -> bool:
        return values <= self._values

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                value = int(message.value() or b"")
                self._found.append(Arrival(now_ms(), value))
                self._values.add(value)
                self.largest = max(self.largest, value)


def run_program(program: Program, start: Start, folder: Path) -> Seen:
    """Let a program copy a topic while the brokers are killed that matter to it, one after the other.

    Args:
        start: what `program.build` has returned.
        folder: an empty one, for the run folder of the cluster, and for the program's files and output.

    Raises:
        ClusterError: the cluster did not do what the run asks for; nothing can be said about the program.
    """
    properties = {**PROPERTIES, "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    with new_cluster(Scene("software", controller_killed), folder, None, properties) as cluster, ExitStack() as stack:
        sink = program.sink.format(source=SOURCE)
        for topic in (SOURCE, sink):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=len(BROKERS))
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        feed = Feed(cluster.bootstrap, [SOURCE])
        feed.start()
        stack.callback(feed.stop)
        arrivals = Arrivals(cluster.bootstrap, sink)
        stack.callback(arrivals.stop)
        own = folder / "program"
        own.mkdir()
        launch = start(Place(cluster.bootstrap, SOURCE, sink, own))
        process = stack.enter_context(Process(launch.command, folder / "program.log"))
        launch.begin()
        trouble: list[str] = []
        killed: list[tuple[str, int]] = []
        if not _wait(process, lambda: len(arrivals) >= STEADY, STEADY_TIMEOUT_S):
            trouble.append(f"fewer than {STEADY} records were copied within {STEADY_TIMEOUT_S:g} s")
        for what, kill in _kills(cluster, sink):
            if trouble or process.exit_code is not None:
                break
            killed.append((what, now_ms()))
            kill()
            cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
            if not _wait(process, partial(_has_largest, arrivals, feed.sent), RECOVERY_TIMEOUT_S):
                trouble.append(f"it did not go on within {RECOVERY_TIMEOUT_S:g} s after the {what} was killed")
        feed.stop()
        acknowledged = set(feed.acknowledged[SOURCE].values())
        _wait(process, lambda: arrivals.has_all(acknowledged), DRAIN_TIMEOUT_S)
        if process.exit_code is not None:
            trouble.append(f"it ended with exit code {process.exit_code}")
        cluster.check()
        return judge(program.version, feed.sent, acknowledged, arrivals.found, killed, trouble)


def _has_largest(arrivals: Arrivals, value: int) -> bool:
    return arrivals.largest >= value


def _kills(cluster: LocalCluster, sink: str) -> list[tuple[str, Callable[[], None]]]:
    """What is killed, each with the function that kills it and starts it again."""

    def nothing() -> None:
        pass

    return [
        ("leader of the first topic", lambda: leader_killed(cluster, SOURCE, nothing)),
        ("leader of the second topic", lambda: leader_killed(cluster, sink, nothing)),
        ("controller", lambda: controller_killed(cluster, SOURCE, nothing)),
        ("group coordinator", lambda: leader_killed(cluster, OFFSETS_TOPIC, nothing)),
    ]


def _wait(process: Process, condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; return whether it does. Ends early if the program has ended."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline or process.exit_code is not None:
            return condition()
        time.sleep(_POLL_S)
    return True
