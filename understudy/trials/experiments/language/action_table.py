"""`ACTIONS`: how each action is written in a step, and what it does.

The one table of their names serves the reader, the explanation of a plan, the JSON Schema and the table of the actions
of each engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from understudy.clusters.answers import APPLY, IGNORE, MOST_THROTTLE_MS, MOST_TIMES
from understudy.clusters.verb_table import POINT_ACTIONS
from understudy.controller.points import POINTS
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.armed_answers import CLIENT_APIS
from understudy.foundation.wire.registry import APIS
from understudy.trials.experiments.language.actions import (
    Action,
    Answer,
    ArmPoint,
    Counted,
    DiskFault,
    JoinMembers,
    Links,
    LoseAnswer,
    OnOneBroker,
    OnPartition,
    OnTopic,
    OnZnode,
    OnZooKeeper,
    Rated,
    Repeated,
    RequestFault,
    Settle,
    StepClock,
)
from understudy.trials.experiments.language.kinds import (
    COUNT_RANGE,
    FLAG,
    NAME,
    PARTITION,
    SHIFT,
    SPAN,
    TARGET,
    TEXT,
    ZOOKEEPER,
    StepKey,
    ValueKind,
    choice,
    integer,
    list_of,
)

TARGETS: Final = list_of(TARGET, may_be_single=True, most=20)
ONE_TARGET: Final = ValueKind(lambda node, problems: (TARGET.read(node, problems),), TARGET.schema, TARGET.words)
_VALUES: Final[Mapping[type[Action], ValueKind]] = {
    OnOneBroker: ONE_TARGET,
    OnZooKeeper: ZOOKEEPER,
    OnZnode: TEXT,
    OnTopic: NAME,
    OnPartition: PARTITION,
    JoinMembers: integer(1, 20),
    Settle: SPAN,
}
"""The kind of the value of an action's key, by its class; `TARGETS` for all others."""


@dataclass(frozen=True, slots=True)
class Form:
    """How an action is written, and what it does.

    Attributes:
        shape: its class.
        meaning: what it does, as an imperative without full stop; `{}` stands for the value, `{point}` for a key.
        keys: further keys of its step.
        is_fault: whether it injects or ends a fault, which an engine may be unable to do.
    """

    shape: type[Action]
    meaning: str
    keys: tuple[StepKey, ...] = ()
    is_fault: bool = True

    def keys_of(self, name: str) -> tuple[StepKey, ...]:
        """The keys of a step that has the action of this name; the first is the action's own key."""
        kind = _VALUES.get(self.shape, TARGETS)
        return (StepKey(name, kind, self.meaning, field=self.shape.VALUE), *self.keys)


_FOR: Final = StepKey("for", SPAN, "how long it lasts; by default to the end of the experiment", field="lasts")
_DOWN: Final = StepKey("for", SPAN, "how long the broker is down", field="lasts", is_required=True)
_SLOW_START: Final = StepKey("for", SPAN, "how long its start takes", field="lasts", is_required=True)
_FROM: Final = StepKey(
    "from", TARGETS, "the other side: brokers, zookeeper, or servers of it", field="peers", is_required=True
)
_OTHERS: Final = StepKey("from", TARGETS, "the other brokers", field="peers", is_required=True)
_DIRECTION: Final = StepKey(
    "direction", choice("both", "sent", "received"), "which traffic of the broker; by default both"
)
_TO: Final = StepKey("to", TARGETS, "the brokers that receive it", field="peers", is_required=True)
_API: Final = StepKey("api", choice(*(api.name for api in APIS)), "the kind of request; by default any")
_COUNT: Final = StepKey("count", integer(1, 1_000_000), "how many bytes; by default 1")
_BY: Final = StepKey("by", SPAN, "how much longer", is_required=True)

ACTIONS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "kill": Form(Action, "kill {} (SIGKILL)", (_FOR,)),
        "bounce": Form(Action, "kill {} and start it again {lasts} later", (_DOWN,)),
        "lose-power": Form(Action, "turn off the machine of {}, which loses what was not flushed", (_FOR,)),
        "pause": Form(Action, "pause {} (SIGSTOP)", (_FOR,)),
        "resume": Form(Action, "resume {} (SIGCONT)"),
        "stutter": Form(
            Repeated,
            "pause {} again and again, half of the time",
            (StepKey("every", SPAN, "the period of the pauses; by default 1s"), _FOR),
        ),
        "starve": Form(
            Rated,
            "let {} run only {percent} % of the time (SIGSTOP and SIGCONT)",
            (StepKey("percent", integer(5, 95), "of each 200 ms", is_required=True), _FOR),
        ),
        "crash-loop": Form(
            Repeated,
            "kill {} and start it, again and again",
            (StepKey("every", SPAN, "how long it is down, and how long up; by default 2s"), _FOR),
        ),
        "slow-start": Form(
            Action, "kill {} and start it again, paused for {lasts} as soon as its process exists", (_SLOW_START,)
        ),
        "limit-files": Form(
            Counted,
            "let {} have at most {count} files and sockets open (RLIMIT_NOFILE)",
            (StepKey("count", integer(1, 1_000_000), "how many", is_required=True), _FOR),
        ),
        "flood": Form(
            Counted,
            "open many connections to {} that send nothing, half a request or bytes that are none",
            (StepKey("connections", integer(1, 1_500), "how many; by default 100", field="count"), _FOR),
        ),
        "stop": Form(Action, "stop {} by a controlled shutdown (SIGTERM)", (_FOR,)),
        "start": Form(Action, "start {}"),
        "restart": Form(Action, "stop {} and start it again"),
        "expire": Form(Action, "end the ZooKeeper session of {}"),
        "depose": Form(OnOneBroker, "delete /controller while {} owns it"),
        "isolate": Form(Action, "hold all traffic of {}", (_FOR,)),
        "cut": Form(Links, "hold the traffic between {} and {peers}", (_FROM, _DIRECTION, _FOR)),
        "reset": Form(Links, "break the connections between {} and {peers}", (_FROM,)),
        "delay": Form(
            Links,
            "delay the traffic between {} and {peers}",
            (_OTHERS, StepKey("by", SPAN, "how long, each way", is_required=True), _FOR),
        ),
        "throttle": Form(
            Links,
            "limit the traffic between {} and {peers}",
            (
                _OTHERS,
                StepKey("bytes", integer(1, 10**9), "how many bytes a second on each connection", is_required=True),
                _FOR,
            ),
        ),
        "split": Form(
            Links,
            "carry the traffic between {} and {peers} in pieces of {bytes} bytes, one a millisecond",
            (_OTHERS, StepKey("bytes", integer(1, 1_000_000), "the size of a piece", is_required=True), _FOR),
        ),
        "refuse": Form(
            Links,
            "reset every connection that {} opens to {peers}",
            (StepKey("to", TARGETS, "brokers, or zookeeper", field="peers", is_required=True), _FOR),
        ),
        "cut-clients": Form(Action, "hold the traffic between {} and all clients", (_FOR,)),
        "swizzle": Form(
            Action,
            "isolate {} one after the other and heal them one after the other, in orders that the seed draws",
            (StepKey("for", SPAN, "how long all of it takes", field="lasts", is_required=True),),
        ),
        "hold": Form(
            RequestFault,
            "hold the next request of {} to {peers}, and what follows on its connection",
            (_TO, _API, _FOR),
        ),
        "delay-request": Form(
            RequestFault,
            "hold the next request of {} to {peers}, and what follows on its connection, for {by}",
            (_TO, _API, StepKey("by", SPAN, "how long", is_required=True)),
        ),
        "drop-request": Form(
            RequestFault, "break the connection of {} instead of forwarding its next request to {peers}", (_TO, _API)
        ),
        "drop-answer": Form(
            RequestFault, "break the connection of {} instead of answering its next request to {peers}", (_TO, _API)
        ),
        "drop-connection": Form(
            RequestFault, "break the connection of {} as soon as its next request to {peers} is forwarded", (_TO, _API)
        ),
        "duplicate": Form(
            RequestFault, "send the next request of {} to {peers} twice, on two connections", (_TO, _API)
        ),
        "corrupt": Form(RequestFault, "invert bytes of the next request of {} to {peers}", (_TO, _API, _COUNT)),
        "shorten": Form(
            RequestFault, "remove the last bytes of the next request of {} to {peers}", (_TO, _API, _COUNT)
        ),
        "heal": Form(Action, "end the isolation and the cuts of {}"),
        "lose-answer": Form(
            LoseAnswer,
            "break the connection of {} to ZooKeeper at its next write below {path}, whose outcome it does not learn",
            (
                StepKey("path", TEXT, "a part of a path that the write changes", is_required=True),
                StepKey("applied", FLAG, "whether ZooKeeper applies the write; by default drawn by the seed"),
            ),
        ),
        "arm": Form(
            ArmPoint,
            "{point_action} {} when its controller next reaches the point {point}",
            (
                StepKey("point", choice(*POINTS), "the point", is_required=True),
                StepKey("action", choice(*POINT_ACTIONS), "what happens there", field="point_action", is_required=True),
                _FOR,
            ),
        ),
        "answer": Form(
            Answer,
            "answer the next requests of {api} to {} with {error}",
            (
                StepKey("api", choice(*(api.name for api in CLIENT_APIS)), "the kind of request", is_required=True),
                StepKey("error", choice(*Errors.__members__), "the error; by default NONE, for a throttle time alone"),
                StepKey("times", integer(1, MOST_TIMES), "how many requests; by default 1"),
                StepKey("topic", NAME, "the topic that the error is for; by default all of a request"),
                StepKey("partition", integer(0, 10_000), "the partition of this topic; by default all of a request"),
                StepKey("client", TEXT, "the client id of the requests; by default any client's"),
                StepKey("and", choice(APPLY, IGNORE), "whether a request is handled too; by default ignore", "then"),
                StepKey(
                    "throttle-ms", integer(1, MOST_THROTTLE_MS), "the throttle time in the answers, in milliseconds"
                ),
            ),
        ),
        "step-clock": Form(
            StepClock, "shift the wall clock of {} by {by}", (StepKey("by", SHIFT, "how far", is_required=True), _FOR)
        ),
        "drift-clock": Form(
            Rated,
            "let the wall clock of {} run at {percent} % of its speed",
            (StepKey("percent", integer(1, 1_000), "100 is right", is_required=True), _FOR),
        ),
        "freeze-clock": Form(Action, "let the wall clock of {} stand still", (_FOR,)),
        "fill-disk": Form(DiskFault, "let every write of {} to its disk fail with ENOSPC", (_FOR,)),
        "fail-disk": Form(DiskFault, "let every write of {} to its disk fail with EIO", (_FOR,)),
        "fail-flush": Form(DiskFault, "let every flush of {} to its disk fail with EIO", (_FOR,)),
        "fail-reads": Form(DiskFault, "let every read of {} from its disk fail with EIO", (_FOR,)),
        "slow-disk": Form(DiskFault, "let every read and write of {} on its disk take {by} longer", (_BY, _FOR)),
        "slow-flush": Form(DiskFault, "let every flush of {} to its disk take {by} longer", (_BY, _FOR)),
        "skip-flushes": Form(
            Action, "let flushes of {} make nothing durable, so that a loss of power undoes more", (_FOR,)
        ),
        "tear-append": Form(Action, "kill {} in the middle of its next append, when half of it is written", (_FOR,)),
        "corrupt-log": Form(
            Counted, "kill {}, invert the last bytes of each of its logs and start it {lasts} later", (_DOWN, _COUNT)
        ),
        "shorten-log": Form(
            Counted, "kill {}, remove the last bytes of each of its logs and start it {lasts} later", (_DOWN, _COUNT)
        ),
        "lose-checkpoints": Form(
            Counted, "kill {}, delete the checkpoints of its logs and start it {lasts} later", (_DOWN,)
        ),
        "wipe-disk": Form(Counted, "kill {}, empty its disk and start it {lasts} later", (_DOWN,)),
        "roll-back-disk": Form(
            Action,
            "copy the disk of {}, and {lasts} later kill it, put the copy back and start it",
            (StepKey("for", SPAN, "how old the copy is by then", field="lasts", is_required=True),),
        ),
        "stop-zookeeper": Form(OnZooKeeper, "stop {}", (_FOR,)),
        "start-zookeeper": Form(OnZooKeeper, "start {}"),
        "restart-zookeeper": Form(OnZooKeeper, "stop {} and start it again at once"),
        "pause-zookeeper": Form(OnZooKeeper, "pause {} (SIGSTOP)", (_FOR,)),
        "slow-zookeeper": Form(OnZooKeeper, "let {} answer {by} later", (_BY, _FOR)),
        "cut-zookeeper": Form(OnZooKeeper, "hold the traffic between {} and {peers}", (_FROM, _FOR)),
        "flap-zookeeper": Form(
            Repeated,
            "break the connection of {} to ZooKeeper again and again",
            (StepKey("every", SPAN, "how often; by default 500ms"), _FOR),
        ),
        "hold-watch": Form(Action, "hold the next watch event for {}, and what ZooKeeper sends after it", (_FOR,)),
        "write": Form(
            OnZnode, "write the znode {} as an operator does", (StepKey("data", TEXT, "its new data"),), is_fault=False
        ),
        "delete": Form(OnZnode, "delete the znode {} as an operator does", is_fault=False),
        "create-topic": Form(
            OnTopic,
            "create the topic {}",
            (
                StepKey("partitions", integer(1, 10_000), "how many; by default 1"),
                StepKey("replicas", integer(1, 100), "the replication factor; by default 3, at most the brokers"),
            ),
            is_fault=False,
        ),
        "delete-topic": Form(OnTopic, "delete the topic {}", is_fault=False),
        "add-partitions": Form(
            OnTopic,
            "give the topic {} {to} partitions",
            (StepKey("to", integer(2, 10_000), "how many", field="partitions", is_required=True),),
            is_fault=False,
        ),
        "reassign": Form(
            OnPartition,
            "reassign {} to {to}",
            (StepKey("to", TARGETS, "its new replicas", field="peers", is_required=True),),
            is_fault=False,
        ),
        "elect": Form(OnPartition, "elect the preferred leader of {}", is_fault=False),
        "elect-unclean": Form(OnPartition, "elect any live replica of {} as its leader", is_fault=False),
        "produce": Form(
            OnPartition,
            "produce records to {}",
            (
                StepKey("count", COUNT_RANGE, "how many; by default 1"),
                StepKey("acks", choice("all", "1", "0"), "by default all"),
            ),
            is_fault=False,
        ),
        "join": Form(JoinMembers, "let more members join the group that `members` are in: {}", is_fault=False),
        "settle": Form(Settle, "wait at most {} until the cluster has settled", is_fault=False),
        "bind": Form(OnOneBroker, "remember {}", is_fault=False),
    }
)
"""Every action by its key in a step."""
