"""Imports the lines of a KRaft node's `controller.log` and `server.log`, which say when and why rather than what.

The log of the quorum has every state; it does not have the beginning and the end of a process, nor when a follower
stopped waiting for the leader, nor when a new controller became active and a former one resigned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from understudy.foundation.eventlog.records import (
    BecameCandidate,
    ControllerResigned,
    ProcessExiting,
    ProcessStarted,
    RunDescribed,
)
from understudy.history.kafka_logs.broker_node import SOFTWARE, BrokerNode
from understudy.history.kafka_logs.entries import Entry
from understudy.history.kafka_logs.statements import IDENT
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.wrapping import LogError

_CONTROLLER: Final = "org.apache.kafka.controller.QuorumController"
_RAFT: Final = "org.apache.kafka.raft.KafkaRaftClient"
_SESSION_TIMEOUT: Final = re.compile(r"\s*broker\.session\.timeout\.ms = (\d+)")
_OF_ZOOKEEPER_MODE: Final = ("kafka.controller.KafkaController", "kafka.server.KafkaServer", "kafka.zk.KafkaZkClient")


@dataclass(slots=True)
class NodeLines:
    """Imports the lines of all nodes.

    Args:
        activates: called with an epoch and a time when a node logs that it has become the active controller.

    Attributes:
        lines: the number of entries.
        understood: the number of those that became records, or that later records needed.
    """

    activates: Callable[[BrokerNode, int, float], None]
    lines: int = 0
    understood: int = 0
    _session_timeout_ms: int | None = None
    _starting: set[int] = field(default_factory=set)
    _exited: set[int] = field(default_factory=set)
    _resigned: set[tuple[int, int]] = field(default_factory=set)

    def add(self, node: BrokerNode, ms: float, entry: Entry, *, is_broker: bool) -> None:
        """Import one entry of a node's log.

        Args:
            ms: the time of the run.

        Raises:
            LogError: it is of a cluster in ZooKeeper mode.
        """
        if entry.logger.startswith(_OF_ZOOKEEPER_MODE):
            raise LogError(
                f"{entry.file}:{entry.line}: a line of a cluster in ZooKeeper mode, beside the --metadata-log of a "
                "KRaft cluster; import each for itself"
            )
        self.lines += 1
        ident = IDENT.match(entry.message)
        text = entry.message if ident is None else entry.message[ident.end() :]
        for logger, pattern, imports in _STATEMENTS:
            if entry.logger.startswith(logger) and (match := pattern.match(text)) is not None:
                self.understood += 1
                imports(self, _Line(node, ms, entry, match, is_broker))
                break
        node.line_was_read(ms, EntryKind.of(entry.logger).value)

    # -- processes

    def _starts(self, line: _Line) -> None:
        """Begin an incarnation at the first line of a process; others of its start follow."""
        node = line.node
        if node.broker in self._starting:
            return
        self._starting.add(node.broker)
        self._exited.discard(node.broker)
        node.end_incarnation()
        role, broker_id = ("broker", node.broker) if line.is_broker else ("controller", -1)
        node.write(line.ms, ProcessStarted(role=role, broker_id=broker_id, software=SOFTWARE))

    def _started(self, line: _Line) -> None:
        self._starting.discard(line.node.broker)

    def _ends(self, line: _Line) -> None:
        self._starting.discard(line.node.broker)
        if line.node.broker not in self._exited:
            self._exited.add(line.node.broker)
            line.node.write(line.ms, ProcessExiting(reason="shut down"))

    def _configured(self, line: _Line) -> None:
        """Record the time after which a broker without heartbeats is fenced, the first time that a log names it."""
        texts = (*line.entry.message.splitlines(), *line.entry.rest)
        found = next((match for text in texts if (match := _SESSION_TIMEOUT.match(text))), None)
        if found is not None and self._session_timeout_ms is None:
            self._session_timeout_ms = int(found[1])
            line.node.write(line.ms, RunDescribed(session_timeout_ms=self._session_timeout_ms))

    # -- the quorum

    def _became_candidate(self, line: _Line) -> None:
        line.node.write(line.ms, BecameCandidate(why=line.found["why"].strip()))

    def _became_active(self, line: _Line) -> None:
        self.activates(line.node, int(line.found["epoch"]), line.ms)

    def _resigns(self, line: _Line) -> None:
        epoch = int(line.found["epoch"])
        if (line.node.broker, epoch) not in self._resigned:
            self._resigned.add((line.node.broker, epoch))
            line.node.write(line.ms, ControllerResigned(epoch=epoch, why=line.found["why"]))


@dataclass(frozen=True, slots=True)
class _Line:
    """One entry and the match of a statement with it."""

    node: BrokerNode
    ms: float
    entry: Entry
    found: re.Match[str]
    is_broker: bool


_Importer: TypeAlias = Callable[[NodeLines, _Line], None]


def _statement(logger: str, pattern: str, imports: _Importer) -> tuple[str, re.Pattern[str], _Importer]:
    return logger, re.compile(pattern, re.DOTALL), imports


_STATEMENTS: Final = (
    _statement("", r"Registered `?kafka:type=kafka\.Log4jController`? MBean", NodeLines._starts),
    _statement("kafka.server.ControllerServer", "Starting controller", NodeLines._starts),
    _statement("kafka.server.BrokerServer", "Transition from SHUTDOWN to STARTING", NodeLines._starts),
    _statement("kafka.server.KafkaRaftServer", "Kafka Server started", NodeLines._started),
    _statement(
        "org.apache.kafka.common.utils.AppInfoParser", r"App info kafka\.server for \d+ unregistered", NodeLines._ends
    ),
    # The class is named after hundreds of lines, which are not kept.
    _statement("", "KafkaConfig values:", NodeLines._configured),
    _statement(
        _RAFT,
        r"(?:Become candidate|Transitioning to Prospective state) due to (?P<why>.*)",
        NodeLines._became_candidate,
    ),
    _statement(_CONTROLLER, r"Becoming the active controller at epoch (?P<epoch>\d+)", NodeLines._became_active),
    _statement(
        _CONTROLLER,
        r"Renouncing the leadership due to (?P<why>a metadata log event)\. .*? leader at epoch (?P<epoch>\d+)",
        NodeLines._resigns,
    ),
    _statement(
        _CONTROLLER,
        r"\S+: event failed with (?P<why>\w+).*? at epoch (?P<epoch>\d+) .*Renouncing leadership",
        NodeLines._resigns,
    ),
)
"""The statements that are imported: the beginning of the logger's name, the message after its ident, and the method."""
