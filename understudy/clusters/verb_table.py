"""The verbs on a running cluster, in one table.

The routes of the control port, its OpenAPI page, the command line and docs/reference/verbs.md are made from it, and
soaks take their faults from it. This module imports nothing slow, so that `understudy --help` stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Verb(NamedTuple):
    """One verb.

    Attributes:
        meaning: its effect, as an imperative without full stop.
        done: its past participle, for example `killed`.
        undo: the verb that ends it after `for`; empty if it cannot be given a duration. Until then a broker does not
            serve requests.
        states: the states in which a process may be for it; empty for any.
        ends: the undos that are pointless once it is done; if empty, only this verb as an undo.
        on_zookeeper: whether ZooKeeper can be its target.
        on_compose: the command that does it on the compose cluster; empty if there is none.
    """

    meaning: str
    done: str
    undo: str = ""
    states: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    on_zookeeper: bool = True
    on_compose: str = ""


RUNNING: Final = "running"
PAUSED: Final = "paused"
GONE: Final = "gone"
"""The states of a process."""
_THERE: Final = (RUNNING, PAUSED)

VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "kill": Verb(
            "kill a process (SIGKILL)",
            "killed",
            undo="start",
            states=_THERE,
            ends=("resume",),
            on_compose="docker compose kill",
        ),
        "pause": Verb(
            "pause a process (SIGSTOP)", "paused", undo="resume", states=(RUNNING,), on_compose="docker compose pause"
        ),
        "resume": Verb(
            "resume a paused process (SIGCONT)", "resumed", states=(PAUSED,), on_compose="docker compose unpause"
        ),
        "stop": Verb(
            "stop a broker by a controlled shutdown (SIGTERM)",
            "stopped",
            undo="start",
            states=_THERE,
            ends=("resume",),
            on_compose="docker compose stop",
        ),
        "start": Verb(
            "start a broker that has ended, on its own data",
            "started",
            states=(GONE,),
            on_compose="docker compose start",
        ),
        "restart": Verb(
            "stop a broker and start it again",
            "restarted",
            ends=("resume", "start"),
            on_compose="docker compose restart",
        ),
        "depose": Verb(
            "delete /controller, which the broker owns; it keeps running",
            "deposed",
            states=_THERE,
            on_zookeeper=False,
            on_compose="the same, by the published port of ZooKeeper",
        ),
        "isolate": Verb(
            "hold all traffic of a broker (`understudy up --proxied`)",
            "isolated",
            undo="heal",
            states=_THERE,
            on_zookeeper=False,
            on_compose="docker network disconnect",
        ),
        "heal": Verb(
            "end the isolation of a broker", "healed", on_zookeeper=False, on_compose="docker network connect"
        ),
        "arm": Verb("pause or crash a broker at a named point of its controller", "armed", on_zookeeper=False),
        "answer": Verb("answer a broker's next requests of one kind with an error", "armed", on_zookeeper=False),
    }
)
"""Every verb by its name."""

TARGETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "2": "the broker with this id",
        "controller": "the broker that owns /controller",
        "leader:orders/0": "the leader of a partition",
        "follower:orders/0": "a broker in the partition's ISR that is not its leader, drawn at random",
        "rack:a": "every broker of a rack",
        "random": "a running broker, drawn at random",
        "all": "every broker",
        "zookeeper": "every ZooKeeper server, if the cluster has started them",
        "zookeeper:leader": "the server that leads the ZooKeeper ensemble (`understudy up --zookeepers 3`)",
        "zookeeper:2": "the ZooKeeper server with this id",
    }
)
"""Forms of a target, each with its meaning. A role is resolved when the verb is done."""

ARM: Final = "arm"
ANSWER: Final = "answer"
POINT_ACTIONS: Final = ("pause", "crash")
"""Actions of an armed point on its broker."""
