"""`Statement`: one log statement of Apache Kafka, and the function that imports its lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

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
        ms: the time of the run.
        ident: the text in brackets at the beginning of the message, for example `Controller id=1 epoch=5`.
        found: the match of the statement with the rest of the message.
    """

    cluster: ImportedCluster
    node: BrokerNode
    entry: Entry
    ms: float
    ident: str
    found: re.Match[str]

    def number(self, group: str) -> int:
        return int(self.found[group])

    def write(self, payload: Payload, *, cause: int | None = None) -> int:
        """Append a record at the time of the line, and return its sequence number."""
        return self.node.write(self.ms, payload, cause=cause)


Importer: TypeAlias = Callable[[Line], None]


class Statement(NamedTuple):
    """A log statement.

    Attributes:
        logger: the class or logger that writes it.
        pattern: matches the message after its ident, from its beginning.
        imports: writes the records.
    """

    logger: str
    pattern: re.Pattern[str]
    imports: Importer


class Statements(list[Statement]):
    """The log statements that a module imports. The first one whose pattern matches a line counts."""

    def importing(self, logger: str, pattern: str) -> Callable[[Importer], Importer]:
        """Return the decorator of a function that imports the lines of a statement."""

        def add(imports: Importer) -> Importer:
            self.append(Statement(logger, re.compile(pattern, re.DOTALL), imports))
            return imports

        return add
