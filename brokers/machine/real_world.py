"""Builds the `World` of a broker process: ZooKeeper through kazoo, TCP, the machine's clock, files.

The simulator is the other place that builds a `World`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.machine.answers_file import AnswersFile
from understudy.brokers.machine.clock_identity import clock_identity
from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.machine.injected_faults import FaultsFile, FaultyClock, FaultyDisk
from understudy.brokers.machine.socket_network import SocketNetwork, host_name
from understudy.brokers.membership.meta_properties import FILE, read_meta_properties
from understudy.brokers.world import Disk, World
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import SWITCHES, Fences
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import Points, UnarmedPoints
from understudy.foundation.eventlog.records import PointReached, ProcessStarted
from understudy.foundation.wire.armed_answers import AnswerList, ArmedAnswers
from understudy.foundation.zk.kazoo_client import KazooZooKeeper

T = TypeVar("T")

EVENTS_FOLDER = "events"

EXPERIMENT_VARIABLE = "UNDERSTUDY_EXPERIMENT"
"""Environment variable in which an experiment leaves its name for its brokers."""

_ACTIONS = {"pause": signal.SIGSTOP, "crash": signal.SIGKILL}


class MachineClock:
    """This machine's clocks. Monotonic times can be compared between processes with the same `ClockIdentity.boot`."""

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    def wall_ms(self) -> float:
        return time.time_ns() / 1e6


class FilePoints:
    """Pauses or kills this process at points that a JSON file names, for example `{"partition.after_write": "pause"}`.

    The file is read at each point. An entry is removed before it takes effect, so that it does so once. A file that is
    missing, or cannot be read because an experiment is writing it, has no entries.
    """

    def __init__(self, path: Path, events: EventLog) -> None:
        self._path = path
        self._events = events

    async def reach(self, name: str) -> None:
        armed = self._armed()
        action = armed.pop(name, None)
        if action not in _ACTIONS:
            return
        temporary = self._path.with_name(self._path.name + ".tmp")
        temporary.write_text(json.dumps(armed))
        temporary.replace(self._path)
        self._events.append(PointReached(point=name, action=action))
        os.kill(os.getpid(), _ACTIONS[action])

    def _armed(self) -> dict[str, str]:
        try:
            armed = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return armed if isinstance(armed, dict) else {}


async def on_another_thread(work: Callable[[], T]) -> T:
    """Run `work` on another thread; the event loop runs beside it every half millisecond (`sys.setswitchinterval`)."""
    return await asyncio.to_thread(work)


def node_name(config: KafkaConfig, disk: Disk) -> str:
    """`broker-N`, or a name by process id if ZooKeeper has yet to generate the broker id N."""
    if config.broker_id >= 0:
        return f"broker-{config.broker_id}"
    stored = read_meta_properties(disk.read(FILE)).broker_id
    return f"broker-{stored}" if stored is not None else f"broker-unnumbered-{os.getpid()}"


def _zookeeper(config: KafkaConfig) -> KazooZooKeeper:
    try:
        return KazooZooKeeper(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout,
        )
    except ValueError as error:
        expected = "expected host:port,host:port/chroot"
        raise ConfigError.invalid("zookeeper.connect", config.zookeeper_connect, expected) from error


def _event_log(config: KafkaConfig, node: str, clock: Clock) -> EventLog:
    """Create the event log of this process, and write its first record."""
    folder = config.understudy_events_dir or str(Path(config.log_directory) / EVENTS_FOLDER)
    files = JsonLinesFiles(Path(folder), node)
    events = EventLog(
        run=config.understudy_run_id,
        node=node,
        incarnation=files.incarnation,
        clock=clock,
        write=files.write,
        detail=config.understudy_events_detail,
    )
    identity = clock_identity()
    events.append(
        ProcessStarted(
            role="broker",
            broker_id=config.broker_id,
            pid=os.getpid(),
            software="understudy",
            machine=identity.machine,
            boot=identity.boot,
            after_seq=files.after_seq(config.understudy_run_id),
            has_testbed=config.understudy_run_testbed,
        )
    )
    return events


def real_world(config: KafkaConfig) -> World:
    """The world of a broker with this configuration, on this machine. Nothing is connected or bound yet.

    Its event log begins with `ProcessStarted`.

    Raises:
        OSError: the log directory or the event log cannot be written.
        InconsistentMetaProperties: the log directory's `meta.properties` cannot be read.
        ConfigError: `zookeeper.connect` cannot be read.
    """
    zookeeper = _zookeeper(config)
    clock: Clock = MachineClock()
    disk: Disk = FileDisk(Path(config.log_directory))
    if config.understudy_faults_file is not None:
        faults = FaultsFile(Path(config.understudy_faults_file))
        clock, disk = FaultyClock(clock, faults), FaultyDisk(FileDisk(Path(config.log_directory)), faults)
    events = _event_log(config, node_name(config, disk), clock)
    points: Points = UnarmedPoints()
    if config.understudy_points_file is not None:
        points = FilePoints(Path(config.understudy_points_file), events)
    answers: ArmedAnswers = AnswerList()
    if config.understudy_answers_file is not None:
        answers = AnswersFile(Path(config.understudy_answers_file))
    return World(
        zookeeper=zookeeper,
        network=SocketNetwork(source_address=config.understudy_source_address),
        clock=clock,
        random=random.Random(random.SystemRandom().getrandbits(128)),
        disk=disk,
        events=events,
        fences=Fences(events, switched_off=[SWITCHES[name] for name in config.understudy_switches_off]),
        points=points,
        host_name=host_name,
        answers=answers,
        offload=on_another_thread,
    )
