"""`Statement`: one log statement of Apache Kafka, and the function that imports its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from understudy.foundation.eventlog.records import Payload
from understudy.history.kafka_logs.broker_node import BrokerNode
from understudy.history.kafka_logs.cluster_state import ImportedCluster
from understudy.history.kafka_logs.entries import Entry

CONTROLLER: Final = "kafka.controller.KafkaController"
STATE_CHANGE: Final = "state.change.logger"

IDENT: Final = re.compile(r"\[(?P<ident>[^\]]*)\]:? ")
"""Beginning of the messages of Kafka's classes, for example `[Controller id=1 epoch=5] `."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a broker's log, with everything that a statement's function needs.

    Attributes:
        ident: the text in brackets at the beginning of the message, for example `Controller id=1 epoch=5`.
        found: the match of the statement with the rest of the message.
    """

    cluster: ImportedCluster
    node: BrokerNode
    entry: Entry
    ident: str
    found: re.Match[str]

    @property
    def ms(self) -> float:
        return float(self.entry.ms)

    def number(self, group: str) -> int:
        return int(self.found[group])

    def write(self, payload: Payload, *, cause: int | None = None) -> int:
        """Append a record at the time of the line, and return its sequence number."""
        return self.node.write(self.ms, payload, cause=cause)


Importer: TypeAlias = Callable[[Line], None]


@dataclass(frozen=True, slots=True)
class Statement:
    """A log statement.

    Attributes:
        logger: the class or logger that writes it.
        pattern: matches the message after its ident, from its beginning.
        imports: writes the records; None if the line adds nothing to other lines.
    """

    logger: str
    pattern: re.Pattern[str]
    imports: Importer | None = None


def statement(logger: str, pattern: str, imports: Importer | None = None) -> Statement:
    return Statement(logger, re.compile(pattern, re.DOTALL), imports)


def by_logger(statements: Iterable[Statement]) -> Mapping[str, tuple[Statement, ...]]:
    """Group statements by their logger."""
    grouped: dict[str, list[Statement]] = {}
    for one in statements:
        grouped.setdefault(one.logger, []).append(one)
    return {logger: tuple(group) for logger, group in grouped.items()}
