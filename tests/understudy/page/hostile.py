"""Event logs that no program writes: any values in any order, but valid records."""

from __future__ import annotations

import random
import types
import typing
from collections.abc import Sequence
from typing import Any

import msgspec

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Envelope

NAMES = (
    "broker-1", "broker-2", "zookeeper", "testbed", "__proto__", "constructor", "toString", "hasOwnProperty", "0", "-0",
    "1/1/1", "", " ", "broker-1 -> broker-2", "broker-1 -> zookeeper", "broker-2 -> broker-1, broker-2", "a -> b -> c",
    "broker-1 -> broker-2: LeaderAndIsr", "all links", "/controller", "/brokers/ids/1", "/brokers/ids/__proto__",
    "päyments", "\u2028", "\ufffd", "\U0001f600", "\uffff", "e\u0301", '"quoted"\\', "</script>", "NONE", "leader",
    "NonExistentPartition", "OnlinePartition", "deleted",
)  # fmt: skip
VERBS = (
    "kill", "power_loss", "crash", "pause", "continue", "resume", "stop", "start", "expire", "depose", "delete", "heal",
    "cut", "delay", "isolate", "refuse", "reset", "",
)  # fmt: skip
PATHS = (
    "/controller", "/controller\n", "/controller_epoch", "/brokers/ids/1", "/brokers/ids/", "/brokers/topics/orders",
    "/brokers/topics/a/partitions", "/brokers/topics/a/partitions/0/state", "/brokers/topics//partitions/x",
    "/config/changes/config_change_1", "/isr_change_notification/\u2028\n", "/isr_change_notification", "/", "",
    "/admin/delete_topics/orders", "/__proto__", "no path",
)  # fmt: skip
PURPOSES = ("topic", "topic-deletion", "preferred-election", "top-level-paths", "config-purge", "isr-changes", "\0")
OUTCOMES = ("Ok", "Ok", "Ok", "NodeExists", "BadVersion", "Unknown")
ABOUT_PATHS = ("FaultInjected", "TopicsChanged", "WatchFired", "ZkWrite", "ZkWrite", "ZkWriteDone", "ZkWriteDone")
"""The types of records that create, change and delete znodes."""
APIS = ("Produce", "Produce", "Fetch", "Metadata", "OffsetCommit", "LeaderAndIsr", "toString")
INTEGERS = (-1, 0, 0, 1, 1, 1, 2, 2, 3, 5, 255, 256, 257, -2, -300, 2**31, 2**53 - 1, 2**53, -(2**53), 2**63 - 1)
_TEXTS = {
    "fault": VERBS,
    "action": VERBS,
    "api": APIS,
    "path": (*PATHS, *NAMES),
    "paths": PATHS,
    "purpose": PURPOSES,
    "outcome": OUTCOMES,
}
"""The texts of some fields; others have any name."""
FLOATS = (0.0, -0.0, 1.5, 1e-9, 1e15, 0.1 + 0.2)


class HostileRun:
    """Records of every type with values that no program writes, of few nodes so that they meet each other.

    Incarnations go back and forth, clocks jump, integers exceed what a double holds, and names are properties of
    JavaScript's objects, links, znodes and words in other alphabets.

    Args:
        kinds: the types of the records; all by default.
    """

    def __init__(self, seed: int, *, records: int, kinds: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._kinds = kinds or sorted(PAYLOAD_BY_TYPE)
        self._us = 0.0
        self.records = [self._record(seq) for seq in range(1, records + 1)]

    def _record(self, seq: int) -> Envelope:
        pick = self._random.choice
        self._us += pick((0.0, 0.0, 0.0005, 1.0, 900.0, 2000.0, -700.0, -0.0))
        kind = pick(self._kinds)
        return Envelope(
            version=1,
            run="hostile",
            node=pick(NAMES[:9]) if self._random.random() < 0.8 else pick(NAMES),
            incarnation=pick((1, 1, 1, 1, 2, 2, 3, -1, 2**60)) if self._random.random() < 0.1 else 1,
            seq=seq if self._random.random() < 0.9 else pick(INTEGERS),
            mono_ms=pick((1e300, -1e300)) if self._random.random() < 0.01 else self._us,
            wall_ms=0.0,
            type=kind,
            cause=pick((None, seq - 1, seq - 2, pick(INTEGERS))),
            zxid=pick(INTEGERS),
            controller_epoch=pick(INTEGERS),
            data=self._value(PAYLOAD_BY_TYPE[kind]),
        )

    def _value(self, kind: Any, name: str = "") -> Any:
        pick = self._random.choice
        if kind is str:
            return pick(_TEXTS.get(name, NAMES))
        if kind is bool:
            return pick((False, True))
        if kind is int:
            return pick(INTEGERS)
        if kind is float:
            return pick(FLOATS)
        if kind is type(None):
            return None
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = typing.get_type_hints(kind)
            return kind(**{field: self._value(hints[field], field) for field in kind.__struct_fields__})
        return self._compound(kind, name)

    def _compound(self, kind: Any, name: str) -> Any:
        arguments = typing.get_args(kind)
        if isinstance(kind, types.UnionType):
            return self._value(self._random.choice(arguments), name)
        if typing.get_origin(kind) is dict:
            return {self._value(str): self._value(int) for _ in range(self._random.randint(0, 2))}
        assert typing.get_origin(kind) is tuple, f"no values for {kind}"
        if arguments[-1] is Ellipsis:
            return tuple(self._value(arguments[0], name) for _ in range(self._random.choice((0, 1, 1, 2, 3))))
        return tuple(self._value(each) for each in arguments)
