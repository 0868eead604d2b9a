"""Values of an experiment file that are written as words: durations, ranges, targets and triggers."""

from __future__ import annotations

import random
import re
from typing import Final, NamedTuple

import msgspec

from understudy.clusters.problems import BadValue, one_of
from understudy.foundation.cluster.identifiers import TopicPartition

LONGEST_MS: Final = 24 * 3_600_000
"""The longest duration that a file may name."""

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_CALL = re.compile(r"([a-z][a-z-]*)\((.*)\)")
_BOUND_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_TOPIC_PARTITION = re.compile(r"([A-Za-z0-9._-]{1,249})/(\d{1,6})")


# ------------------------------------------------------------------ durations and counts


class Span(NamedTuple):
    """A range of milliseconds from which the seed draws one; a plain duration is a range of one value."""

    low_ms: float
    high_ms: float

    def draw(self, source: random.Random) -> float:
        """Draw whole milliseconds."""
        return self.low_ms if self.low_ms == self.high_ms else float(round(source.uniform(*self)))

    @property
    def ms(self) -> float:
        """The milliseconds of a range of one value."""
        return self.low_ms

    def __str__(self) -> str:
        low, high = written_duration(self.low_ms), written_duration(self.high_ms)
        return low if low == high else f"{low}..{high}"


class CountRange(NamedTuple):
    """A range of whole numbers from which the seed draws one."""

    low: int
    high: int

    def draw(self, source: random.Random) -> int:
        return source.randint(self.low, self.high)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}..{self.high}"


def written_duration(ms: float) -> str:
    """Write milliseconds as a file does: `1.5s`, `200ms`."""
    return f"{ms / 1000:g}s" if ms >= 1000 or ms == 0 else f"{ms:g}ms"


def parse_duration(text: object) -> float:
    """Return milliseconds of `4s`, `200ms`, `1.5s` or `2m`.

    Raises:
        BadValue: it is no duration, or longer than a day.
    """
    match = _DURATION.fullmatch(str(text).strip())
    if match is None:
        raise BadValue(f"{text!r} is no duration; expected a number with ms, s, m or h, for example 1.5s")
    ms = float(match[1]) * _UNITS_MS[match[2]]
    if ms > LONGEST_MS:
        raise BadValue(f"{text!r} is longer than {LONGEST_MS // 3_600_000} hours, the longest that a file may name")
    return ms


def parse_signed_duration(text: object) -> float:
    """Return milliseconds of `-5s` or `30s`. Raises BadValue."""
    word = str(text).strip()
    return -parse_duration(word[1:]) if word.startswith("-") else parse_duration(word.removeprefix("+"))


def parse_span(text: object) -> Span:
    """Return the range of `4s` or `1s..4s`. Raises BadValue."""
    low, dots, high = str(text).partition("..")
    span = Span(parse_duration(low), parse_duration(high if dots else low))
    if span.low_ms > span.high_ms:
        raise BadValue(f"{text!r} is an empty range: {low} is longer than {high}")
    return span


def parse_count_range(text: object) -> CountRange:
    """Return the range of `3` or `2..6`, from 1. Raises BadValue."""
    low, dots, high = str(text).partition("..")
    try:
        found = CountRange(int(low), int(high if dots else low))
    except ValueError:
        raise BadValue(f"{text!r} is no whole number and no range such as 2..6") from None
    if not 1 <= found.low <= found.high:
        raise BadValue(f"{text!r} is no range of numbers from 1")
    return found


# ------------------------------------------------------------------ targets

SERVICE, CLIENTS = "service", "clients"
OF_USERS: Final = (SERVICE, CLIENTS)
"""Roles of the user's processes, which only tests in virtual time have."""


class Target(msgspec.Struct, frozen=True):
    """The brokers that a step acts on, resolved at the moment of the step.

    Attributes:
        role: `controller`, `leader`, `follower`, `rack`, `random`, `all`, `zookeeper`, `broker` or `bound`; in tests in
            virtual time also `service` and `clients`, the user's processes.
        partition: the partition, for `leader` and `follower`.
        name: for `bound` the name that an earlier step gave, for `rack` the rack, for `zookeeper` which of its servers:
            `leader`, an id, or empty for all; for `service` its name.
        broker_id: the id, for `broker`.
    """

    role: str
    partition: TopicPartition | None = None
    name: str = ""
    broker_id: int = -1

    def __str__(self) -> str:
        match self.role:
            case "bound":
                return self.name
            case "broker":
                return str(self.broker_id)
            case "rack":
                return f"rack({self.name})"
            case "service" if self.name:
                return f"service({self.name})"
            case "zookeeper" if self.name:
                return f"zookeeper({self.name})"
        if self.partition is None:
            return self.role
        return f"{self.role}({self.partition.topic}/{self.partition.partition})"


_WITH_PARTITION: Final = ("leader", "follower")
_ALONE: Final = ("controller", "random", "all", "zookeeper", CLIENTS)


def parse_target(text: object) -> Target:
    """Return the target of `controller`, `leader(orders/0)`, `leader:orders/0`, `rack(a)`, `2`, `zookeeper`,
    `zookeeper(leader)`, `zookeeper(2)`, `service(billing)`, `clients` or a bound name.

    Raises:
        BadValue: it is no target.
    """
    word = str(text).strip()
    if word.isdecimal():
        return Target("broker", broker_id=int(word))
    if word.startswith("broker-") and word[7:].isdecimal():
        return Target("broker", broker_id=int(word[7:]))
    if word in _ALONE:
        return Target(word)
    role, _, argument = word.partition(":")
    if match := _CALL.fullmatch(word):
        role, argument = match[1], match[2].strip()
    if role in _WITH_PARTITION:
        return Target(role, partition=parse_partition(argument))
    if role == "rack":
        if not argument:
            raise BadValue(f"{text!r} names no rack; expected rack(NAME)")
        return Target("rack", name=argument)
    if role == SERVICE:
        if not argument:
            raise BadValue(f"{text!r} names no service; expected service(NAME)")
        return Target(SERVICE, name=argument)
    if role == "zookeeper":
        if argument != "leader" and not argument.isdecimal():
            raise BadValue(
                f"{text!r} names no ZooKeeper server; expected zookeeper, zookeeper(leader) or zookeeper(ID)"
            )
        return Target("zookeeper", name=argument)
    if _BOUND_NAME.fullmatch(word):
        return Target("bound", name=word)
    forms = ("controller", "leader(TOPIC/N)", "follower(TOPIC/N)", "rack(NAME)", "random", "all", "zookeeper")
    raise one_of(text, forms, "target: give a broker's id, a bound name or a role")


def parse_zookeeper(text: object) -> Target:
    """Return the target of `zookeeper`, `zookeeper(leader)` or `zookeeper(2)`. Raises BadValue."""
    target = parse_target(text)
    if target.role != "zookeeper":
        raise BadValue(f"{text!r} is no server of ZooKeeper; expected zookeeper, zookeeper(leader) or zookeeper(ID)")
    return target


def parse_partition(text: str) -> TopicPartition:
    """Return the partition of `orders/0`. Raises BadValue."""
    match = _TOPIC_PARTITION.fullmatch(text.strip())
    if match is None:
        raise BadValue(f"{text!r} is no partition; expected TOPIC/NUMBER, for example orders/0")
    return TopicPartition(match[1], int(match[2]))


# ------------------------------------------------------------------ triggers


class Trigger(msgspec.Struct, frozen=True):
    """An event of the cluster that a step waits for, such as `leader-changed(orders/0)`.

    Attributes:
        event: one of `TRIGGERS`.
        arguments: the words in parentheses.
    """

    event: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.event}({', '.join(self.arguments)})" if self.arguments else self.event


class TriggerForm(NamedTuple):
    """The form and the meaning of a trigger."""

    arguments: tuple[str, ...]
    """Kind of each argument: `broker`, `partition`, `fence`, `point`, `path`, `record`."""
    optional: int
    """Number of arguments that may be left out, from the end."""
    meaning: str


TRIGGERS: Final = {
    "elected": TriggerForm(("broker",), 1, "a broker has won the election of the controller"),
    "ready": TriggerForm(("broker",), 1, "a new controller has sent its first requests"),
    "resigned": TriggerForm(("broker",), 1, "a controller has resigned"),
    "registered": TriggerForm(("broker",), 1, "a broker has registered"),
    "session-expired": TriggerForm(("broker",), 1, "a broker has learnt that its ZooKeeper session has ended"),
    "leader-changed": TriggerForm(("partition",), 0, "the controller has written another leader of a partition"),
    "isr-changed": TriggerForm(("partition",), 0, "the ISR of a partition was written"),
    "fenced": TriggerForm(("fence",), 0, "a fence has refused something stale"),
    "point": TriggerForm(("broker", "point"), 0, "a broker's controller has reached a named point"),
    "zk-write": TriggerForm(("broker", "path"), 1, "a broker is about to write to ZooKeeper below a path"),
    "truncated": TriggerForm(("broker",), 1, "a broker has truncated a log"),
    "answer-injected": TriggerForm(("broker",), 1, "a broker has given an answer that was armed by `answer`"),
    "record": TriggerForm(("record", "broker"), 1, "a record of this type was written to an event log"),
}


def parse_trigger(text: object) -> Trigger:
    """Return the trigger of `elected`, `elected(B)` or `leader-changed(orders/0)`.

    Raises:
        BadValue: there is no such event, or its arguments are wrong.
    """
    word = str(text).strip()
    match = _CALL.fullmatch(word)
    event = word if match is None else match[1]
    arguments = () if match is None else tuple(part.strip() for part in match[2].split(","))
    form = TRIGGERS.get(event)
    if form is None:
        raise one_of(event, tuple(TRIGGERS), "event that a step can wait for")
    if not len(form.arguments) - form.optional <= len(arguments) <= len(form.arguments) or "" in arguments:
        raise BadValue(f"{text!r} has other arguments than expected: {event}({', '.join(form.arguments)})")
    for kind, argument in zip(form.arguments, arguments, strict=False):
        if kind == "partition":
            parse_partition(argument)
        elif kind == "broker":
            parse_target(argument)
    return Trigger(event, arguments)
