"""The actions that a step may have: faults, what ends them, and what clients and operators do.

One table serves the reader, the explanation of a plan, the JSON Schema and the table of what each engine can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from understudy.clusters.cluster import POINT_ACTIONS
from understudy.controller.points import POINTS
from understudy.foundation.wire.registry import APIS
from understudy.trials.experiments.language.kinds import (
    COUNT_RANGE,
    FLAG,
    NAME,
    PARTITION,
    SHIFT,
    SPAN,
    TARGET,
    TEXT,
    Key,
    Kind,
    choice,
    integer,
    list_of,
)

TARGETS: Final = list_of(TARGET, may_be_single=True, most=20)


@dataclass(frozen=True, slots=True)
class Action:
    """What a step may do.

    Attributes:
        kind: what its value is; for most actions the target.
        meaning: what it does, as an imperative without full stop; `{}` stands for the value, `{point}` for a key.
        keys: further keys of its step.
        undo: what ends it: after `for`, at `heal`, or at the end of the experiment; empty if nothing does.
        is_fault: whether it is a fault, which an engine may be unable to inject, rather than a client's request.
    """

    kind: Kind
    meaning: str
    keys: tuple[Key, ...] = ()
    undo: str = ""
    is_fault: bool = True


_FOR: Final = Key("for", SPAN, "how long it lasts; by default to the end of the experiment", field="lasts")
_DOWN: Final = Key("for", SPAN, "how long the broker is down", field="lasts", is_required=True)
_SLOW_START: Final = Key("for", SPAN, "how long its start takes", field="lasts", is_required=True)
_FROM: Final = Key("from", TARGETS, "the other side: brokers, or zookeeper", field="peers", is_required=True)
_DIRECTION: Final = Key("direction", choice("both", "sent", "received"), "which traffic of the broker; by default both")
_TO: Final = Key("to", TARGETS, "the brokers that receive it", field="peers", is_required=True)
_API: Final = Key("api", choice(*(api.name for api in APIS)), "the kind of request; by default any")
_COUNT: Final = Key("count", integer(1, 1_000_000), "how many bytes; by default 1")
_BY: Final = Key("by", SPAN, "how much longer", is_required=True)

ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "kill": Action(TARGETS, "kill {} (SIGKILL)", (_FOR,), undo="start"),
        "bounce": Action(TARGETS, "kill {} and start it again {lasts} later", (_DOWN,)),
        "lose-power": Action(TARGETS, "turn off the machine of {}, which loses what was not flushed", (_FOR,), "start"),
        "pause": Action(TARGETS, "pause {} (SIGSTOP)", (_FOR,), undo="resume"),
        "resume": Action(TARGETS, "resume {} (SIGCONT)"),
        "stutter": Action(
            TARGETS,
            "pause {} again and again, half of the time",
            (Key("every", SPAN, "the period of the pauses; by default 1s"), _FOR),
            undo="resume",
        ),
        "starve": Action(
            TARGETS,
            "let {} run only {percent} % of the time (SIGSTOP and SIGCONT)",
            (Key("percent", integer(5, 95), "of each 200 ms", is_required=True), _FOR),
            undo="resume",
        ),
        "crash-loop": Action(
            TARGETS,
            "kill {} and start it, again and again",
            (Key("every", SPAN, "how long it is down, and how long up; by default 2s"), _FOR),
            undo="start",
        ),
        "slow-start": Action(
            TARGETS, "kill {} and start it again, paused for {lasts} as soon as its process exists", (_SLOW_START,)
        ),
        "limit-files": Action(
            TARGETS,
            "let {} have at most {count} files and sockets open (RLIMIT_NOFILE)",
            (Key("count", integer(1, 1_000_000), "how many", is_required=True), _FOR),
            undo="heal",
        ),
        "flood": Action(
            TARGETS,
            "open many connections to {} that send nothing, half a request or bytes that are none",
            (Key("connections", integer(1, 1_500), "how many; by default 100"), _FOR),
            undo="heal",
        ),
        "stop": Action(TARGETS, "stop {} by a controlled shutdown (SIGTERM)", (_FOR,), undo="start"),
        "start": Action(TARGETS, "start {}"),
        "restart": Action(TARGETS, "stop {} and start it again"),
        "expire": Action(TARGETS, "end the ZooKeeper session of {}"),
        "depose": Action(TARGET, "delete /controller while {} owns it"),
        "isolate": Action(TARGETS, "hold all traffic of {}", (_FOR,), undo="heal"),
        "cut": Action(TARGETS, "hold the traffic between {} and {peers}", (_FROM, _DIRECTION, _FOR), undo="heal"),
        "reset": Action(TARGETS, "break the connections between {} and {peers}", (_FROM,)),
        "delay": Action(
            TARGETS,
            "delay the traffic between {} and {peers}",
            (
                Key("from", TARGETS, "the other brokers", field="peers", is_required=True),
                Key("by", SPAN, "how long, each way", is_required=True),
                _FOR,
            ),
            undo="heal",
        ),
        "throttle": Action(
            TARGETS,
            "limit the traffic between {} and {peers}",
            (
                Key("from", TARGETS, "the other brokers", field="peers", is_required=True),
                Key("bytes", integer(1, 10**9), "how many bytes a second on each connection", is_required=True),
                _FOR,
            ),
            undo="heal",
        ),
        "split": Action(
            TARGETS,
            "carry the traffic between {} and {peers} in pieces of {bytes} bytes, one a millisecond",
            (
                Key("from", TARGETS, "the other brokers", field="peers", is_required=True),
                Key("bytes", integer(1, 1_000_000), "the size of a piece", is_required=True),
                _FOR,
            ),
            undo="heal",
        ),
        "refuse": Action(
            TARGETS,
            "reset every connection that {} opens to {peers}",
            (Key("to", TARGETS, "brokers, or zookeeper", field="peers", is_required=True), _FOR),
            undo="heal",
        ),
        "cut-clients": Action(TARGETS, "hold the traffic between {} and all clients", (_FOR,), undo="heal"),
        "swizzle": Action(
            TARGETS,
            "isolate {} one after the other and heal them one after the other, in orders that the seed draws",
            (Key("for", SPAN, "how long all of it takes", field="lasts", is_required=True),),
            undo="heal",
        ),
        "hold": Action(
            TARGETS,
            "hold the next request of {} to {peers}, and what follows on its connection",
            (_TO, _API, _FOR),
            "heal",
        ),
        "delay-request": Action(
            TARGETS,
            "hold the next request of {} to {peers}, and what follows on its connection, for {by}",
            (_TO, _API, Key("by", SPAN, "how long", is_required=True)),
        ),
        "drop-request": Action(
            TARGETS, "break the connection of {} instead of forwarding its next request to {peers}", (_TO, _API)
        ),
        "drop-answer": Action(
            TARGETS, "break the connection of {} instead of answering its next request to {peers}", (_TO, _API)
        ),
        "drop-connection": Action(
            TARGETS, "break the connection of {} as soon as its next request to {peers} is forwarded", (_TO, _API)
        ),
        "duplicate": Action(TARGETS, "send the next request of {} to {peers} twice, on two connections", (_TO, _API)),
        "corrupt": Action(TARGETS, "invert bytes of the next request of {} to {peers}", (_TO, _API, _COUNT)),
        "shorten": Action(TARGETS, "remove the last bytes of the next request of {} to {peers}", (_TO, _API, _COUNT)),
        "heal": Action(TARGETS, "end the isolation and the cuts of {}"),
        "lose-answer": Action(
            TARGETS,
            "break the connection of {} to ZooKeeper at its next write below {path}, whose outcome it does not learn",
            (
                Key("path", TEXT, "a part of a path that the write changes", is_required=True),
                Key("applied", FLAG, "whether ZooKeeper applies the write; by default drawn by the seed"),
            ),
        ),
        "arm": Action(
            TARGETS,
            "{point_action} {} when its controller next reaches the point {point}",
            (
                Key("point", choice(*POINTS), "the point", is_required=True),
                Key("action", choice(*POINT_ACTIONS), "what happens there", field="point_action", is_required=True),
                _FOR,
            ),
            undo="resume",
        ),
        "step-clock": Action(
            TARGETS,
            "shift the wall clock of {} by {by}",
            (Key("by", SHIFT, "how far", is_required=True), _FOR),
            undo="correct-clock",
        ),
        "drift-clock": Action(
            TARGETS,
            "let the wall clock of {} run at {percent} % of its speed",
            (Key("percent", integer(1, 1_000), "100 is right", is_required=True), _FOR),
            undo="correct-clock",
        ),
        "freeze-clock": Action(TARGETS, "let the wall clock of {} stand still", (_FOR,), undo="correct-clock"),
        "fill-disk": Action(TARGETS, "let every write of {} to its disk fail with ENOSPC", (_FOR,), undo="heal-disk"),
        "fail-disk": Action(TARGETS, "let every write of {} to its disk fail with EIO", (_FOR,), undo="heal-disk"),
        "fail-flush": Action(TARGETS, "let every flush of {} to its disk fail with EIO", (_FOR,), undo="heal-disk"),
        "fail-reads": Action(TARGETS, "let every read of {} from its disk fail with EIO", (_FOR,), undo="heal-disk"),
        "slow-disk": Action(
            TARGETS, "let every read and write of {} on its disk take {by} longer", (_BY, _FOR), undo="heal-disk"
        ),
        "slow-flush": Action(
            TARGETS, "let every flush of {} to its disk take {by} longer", (_BY, _FOR), undo="heal-disk"
        ),
        "skip-flushes": Action(
            TARGETS, "let flushes of {} make nothing durable, so that a loss of power undoes more", (_FOR,), "heal-disk"
        ),
        "tear-append": Action(
            TARGETS, "kill {} in the middle of its next append, when half of it is written", (_FOR,), undo="start"
        ),
        "corrupt-log": Action(
            TARGETS,
            "kill {}, invert the last bytes of each of its logs and start it {lasts} later",
            (_DOWN, _COUNT),
        ),
        "shorten-log": Action(
            TARGETS, "kill {}, remove the last bytes of each of its logs and start it {lasts} later", (_DOWN, _COUNT)
        ),
        "lose-checkpoints": Action(
            TARGETS, "kill {}, delete the checkpoints of its logs and start it {lasts} later", (_DOWN,)
        ),
        "wipe-disk": Action(TARGETS, "kill {}, empty its disk and start it {lasts} later", (_DOWN,)),
        "roll-back-disk": Action(
            TARGETS,
            "copy the disk of {}, and {lasts} later kill it, put the copy back and start it",
            (Key("for", SPAN, "how old the copy is by then", field="lasts", is_required=True),),
        ),
        "stop-zookeeper": Action(choice("zookeeper"), "stop {}", (_FOR,), undo="start-zookeeper"),
        "start-zookeeper": Action(choice("zookeeper"), "start {}"),
        "restart-zookeeper": Action(choice("zookeeper"), "stop {} and start it again at once"),
        "pause-zookeeper": Action(choice("zookeeper"), "pause {} (SIGSTOP)", (_FOR,), undo="resume"),
        "slow-zookeeper": Action(choice("zookeeper"), "let {} answer {by} later", (_BY, _FOR), undo="heal"),
        "flap-zookeeper": Action(
            TARGETS,
            "break the connection of {} to ZooKeeper again and again",
            (Key("every", SPAN, "how often; by default 500ms"), _FOR),
            undo="heal",
        ),
        "hold-watch": Action(
            TARGETS, "hold the next watch event for {}, and what ZooKeeper sends after it", (_FOR,), undo="heal"
        ),
        "write": Action(
            TEXT, "write the znode {} as an operator does", (Key("data", TEXT, "its new data"),), is_fault=False
        ),
        "delete": Action(TEXT, "delete the znode {} as an operator does", is_fault=False),
        "create-topic": Action(
            NAME,
            "create the topic {}",
            (
                Key("partitions", integer(1, 10_000), "how many; by default 1"),
                Key("replicas", integer(1, 100), "the replication factor; by default 3, at most the brokers"),
            ),
            is_fault=False,
        ),
        "delete-topic": Action(NAME, "delete the topic {}", is_fault=False),
        "add-partitions": Action(
            NAME, "give the topic {} {to} partitions", (Key("to", integer(2, 10_000), "how many"),), is_fault=False
        ),
        "reassign": Action(
            PARTITION,
            "reassign {} to {to}",
            (Key("to", TARGETS, "its new replicas", is_required=True),),
            is_fault=False,
        ),
        "elect": Action(PARTITION, "elect the preferred leader of {}", is_fault=False),
        "elect-unclean": Action(PARTITION, "elect any live replica of {} as its leader", is_fault=False),
        "produce": Action(
            PARTITION,
            "produce records to {}",
            (
                Key("count", COUNT_RANGE, "how many; by default 1"),
                Key("acks", choice("all", "1", "0"), "by default all"),
            ),
            is_fault=False,
        ),
        "join": Action(
            integer(1, 20), "let so many more members join the group that `members` are in: {}", is_fault=False
        ),
        "settle": Action(SPAN, "wait at most {} until the cluster has settled", is_fault=False),
        "bind": Action(TARGET, "remember {}", is_fault=False),
    }
)
"""Every action by its key in a step."""
