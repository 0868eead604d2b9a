"""Armed answers: the answers that an experiment or a test has prepared for the next requests of one kind.

A broker asks its `ArmedAnswers` for those that are left before it handles a request. `AnswerList` keeps them in memory,
as the simulator's nodes do; `understudy.brokers.machine.answers_file` reads them from a file, as processes do.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, Protocol

import msgspec

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.registry import APIS, Api

BETWEEN_BROKERS: Final = frozenset(
    {
        "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "AlterPartition",
        "Envelope", "AllocateProducerIds",
    }
)  # fmt: skip
"""APIs that only brokers use."""

CLIENT_APIS: Final[tuple[Api, ...]] = tuple(api for api in APIS if api.name not in BETWEEN_BROKERS)
"""APIs whose requests can be answered so."""


class ArmedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer for the next requests of one kind.

    Attributes:
        name: the name by which the requests that get it are counted; no other answer of the broker has it.
        api: the name of the API.
        error: the name of the error; `NONE` for an answer that is only throttled.
        times: the number of requests that are answered so.
        topic: the topic that a request must name, and to which the error is limited; empty for any.
        partition: the partition of this topic; None for all that a request names.
        client_id: the client id of the requests; empty for any client's, but no other broker's.
        is_applied: whether the request is handled as well, and the codes of its answer are replaced; always for an
            answer that is only throttled.
        throttle_ms: the throttle time in the answer, in milliseconds.
    """

    name: str
    api: str
    error: str
    times: int = 1
    topic: str = ""
    partition: int | None = None
    client_id: str = ""
    is_applied: bool = False
    throttle_ms: int = 0

    @property
    def code(self) -> Errors:
        return Errors[self.error]

    def __str__(self) -> str:
        partition = "" if self.partition is None else f"-{self.partition}"
        words = (
            f"{self.name}: {self.times} × {self.api}",
            f"about {self.topic}{partition}" if self.topic else "",
            f"of {self.client_id}" if self.client_id else "",
            f"answered with {self.error}",
            f"and throttled for {self.throttle_ms} ms" if self.throttle_ms else "",
            "and applied" if self.is_applied and self.code is not Errors.NONE else "",
        )
        return " ".join(filter(None, words))


def named(answer: ArmedAnswer, taken: Collection[str]) -> ArmedAnswer:
    """Return an answer with a name that is not taken: `answer-1`, `answer-2` …"""
    names = (f"answer-{number}" for number in itertools.count(1))
    return msgspec.structs.replace(answer, name=next(name for name in names if name not in taken))


class ArmedAnswers(Protocol):
    """The armed answers of one broker."""

    def left(self) -> Sequence[ArmedAnswer]:
        """The answers that have not been given as often as they are armed for, in the order in which they were."""

    def count(self, answer: ArmedAnswer) -> int:
        """Note that an answer is given once more, and return how often it has been given."""


class AnswerList:
    """Armed answers in memory, and how often each was given. It starts empty."""

    def __init__(self) -> None:
        self.armed: list[ArmedAnswer] = []
        self.given: Counter[str] = Counter()

    def left(self) -> Sequence[ArmedAnswer]:
        return [answer for answer in self.armed if self.given[answer.name] < answer.times]

    def arm(self, answer: ArmedAnswer) -> ArmedAnswer:
        """Arm an answer, and return it with its name."""
        found = named(answer, {*self.given, *(each.name for each in self.armed)})
        self.armed.append(found)
        return found

    def count(self, answer: ArmedAnswer) -> int:
        self.given[answer.name] += 1
        return self.given[answer.name]


def _as_armed_answers(answers: AnswerList) -> ArmedAnswers:
    """Let mypy check that a list implements `ArmedAnswers`."""
    return answers
