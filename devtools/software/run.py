"""Runs one program beside a new cluster whose leaders, coordinator and controller are killed, and judges it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from devtools.report_cards.drivers import now_ms
from devtools.report_cards.members import PARTITIONS, Feed
from devtools.report_cards.run import BROKERS, PROPERTIES, SETTLE_TIMEOUT_S, new_cluster
from devtools.report_cards.scenes import Scene, controller_killed, leader_killed
from devtools.software.judge import Arrival, Seen, judge
from devtools.software.programs import Place, Program, Start
from understudy.clusters.processes.apache_kafka import ApacheKafka

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a function of importlib that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

SOURCE: Final = "numbers"
OFFSETS_TOPIC: Final = "__consumer_offsets"
STEADY_TIMEOUT_S: Final = 240.0
"""Time within which a program has to have copied its first records: a Java virtual machine on a busy machine."""
STEADY: Final = 40
RECOVERY_TIMEOUT_S: Final = 120.0
"""Time within which a record has to arrive that was sent after a kill."""
DRAIN_TIMEOUT_S: Final = 120.0
"""Time within which every record has to arrive that was acknowledged when the last broker was back."""
END_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.1
_REQUEST_TIMEOUT_MS: Final = 5_000
_METADATA_MAX_AGE_MS: Final = 2_000


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
    """Reads a topic from its beginning with kafka-python, without a group, in a thread until `stop`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._found: list[Arrival] = []
        self._values: set[int] = set()
        self.largest = -1
        """The largest number that has arrived."""
        self._stopping = threading.Event()
        self._bootstrap, self._topic = bootstrap, topic
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
        """Read no more; an attempt that is under way ends with the process."""
        self._stopping.set()
        self._thread.join(END_TIMEOUT_S)

    def _read(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self._bootstrap.split(","),
            group_id=None,
            auto_offset_reset="earliest",
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
        )
        consumer.assign([kafka.TopicPartition(self._topic, each) for each in range(PARTITIONS)])
        while not self._stopping.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    value = int(record.value)
                    self._found.append(Arrival(now_ms(), value))
                    self._values.add(value)
                    self.largest = max(self.largest, value)
        consumer.close()


def run_program(program: Program, start: Start, folder: Path, kafka: ApacheKafka | None = None) -> Seen:
    """Let a program copy a topic while the brokers are killed that matter to it, one after the other.

    Args:
        start: what `program.build` has returned.
        folder: an empty one, for the run folder of the cluster, and for the program's files and output.
        kafka: for brokers of Apache Kafka; None for ours.

    Raises:
        ClusterError: the cluster did not do what the run asks for; nothing can be said about the program.
    """
    properties = {**PROPERTIES, "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    with new_cluster(Scene("software", controller_killed), folder, kafka, properties) as cluster, ExitStack() as stack:
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
        is_steady = _wait(process, lambda: len(arrivals) >= STEADY, STEADY_TIMEOUT_S)
        if not is_steady and process.exit_code is None:
            trouble.append(f"fewer than {STEADY} records were copied within {STEADY_TIMEOUT_S:g} s")
        for what, victim in _kills(sink):
            if trouble or process.exit_code is not None:
                break
            if victim is not None and cluster.leader_id(victim, 0) is None:
                continue  # without a group there is no coordinator
            killed.append((what, now_ms()))
            if victim is None:
                controller_killed(cluster, SOURCE, _no_mark)
            else:
                leader_killed(cluster, victim, _no_mark)
            cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
            has_gone_on = _wait(process, partial(_has_largest, arrivals, feed.sent), RECOVERY_TIMEOUT_S)
            if not has_gone_on and process.exit_code is None:
                trouble.append(f"it did not continue within {RECOVERY_TIMEOUT_S:g} s after the {what} was killed")
        # Still feeding: a program may hold a record back until more records have come.
        sent, acknowledged = feed.sent, set(feed.acknowledged[SOURCE].values())
        _wait(process, lambda: arrivals.has_all(acknowledged), DRAIN_TIMEOUT_S)
        if process.exit_code is not None:
            trouble.append(f"it ended with exit code {process.exit_code}")
        cluster.check()
        return judge(program.version, sent, acknowledged, arrivals.found, killed, trouble)


def _has_largest(arrivals: Arrivals, value: int) -> bool:
    return arrivals.largest >= value


def _kills(sink: str) -> list[tuple[str, str | None]]:
    """The roles of the brokers that are killed, each with the topic whose leader has it; None is the controller."""
    return [
        ("leader of the first topic", SOURCE),
        ("leader of the second topic", sink),
        ("controller", None),
        ("group coordinator", OFFSETS_TOPIC),
    ]


def _no_mark() -> None:
    pass


def _wait(process: Process, condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; return whether it does. Ends early if the program has ended."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline or process.exit_code is not None:
            return condition()
        time.sleep(_POLL_S)
    return True
