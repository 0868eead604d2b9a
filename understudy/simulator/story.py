"""Stories: a command, a line, the transcript. Played in the simulator and compared with what they were.

    # What the story is about, in a sentence or two.

    cluster brokers=3 seed=1
    ----
       0.0  broker-1   opens a ZooKeeper session
    ...

    kill controller
    advance 8s
    ----

Commands stand above a line of dashes, one per line; below it, up to the next empty line, stands what the brokers' event
logs told meanwhile, by `narrator`; the block that makes the cluster is told by its outcome alone. Times are seconds
since the story began. After every block the cluster's state closes the transcript. Inspired by etcd-io/raft's
interaction tests.

Commands:
    cluster brokers=N seed=N [racks=a,b,c] [rebalance=on]
                                                first; starts all brokers and waits until they are at rest; where
                                                leaderships are not rebalanced, only what is told moves them
    topic NAME 0:1,2,3 1:2,3,1                  create a topic, placed as said, through a client
    call WHOM NAME                              remember a broker by a name
    kill|start|pause|resume|stop|expire WHOM
    bounce WHOM 200ms                           kill, and start again after that time
    arm WHOM POINT pause|crash [8s]             at a named point; a pause ends after the time given
    lose-answer WHOM PATH applied|lost          of the next write that touches a path containing PATH
    cut WHOM zookeeper|WHOM,WHOM                hold everything between them
    reset WHOM zookeeper                        break the connection; it may connect again at once
    heal                                        all links
    elect                                       preferred leaders, through a client
    advance 8s                                  let time pass
    settle                                      until the cluster is at rest
WHOM is a number, `controller`, `leader(orders/0)` or a name given by `call`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from foundation.eventlog.reader import decode_record
from understudy.cluster import ClusterError
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.narrator import tell
from understudy.simulator.zookeeper import LostAnswer

_LINE = "----"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_LEADER = re.compile(r"leader\(([^/]+)/(\d+)\)")


class BadStory(Exception):
    """A story cannot be played. The message names the command, what was expected, and where."""


@dataclass(frozen=True, slots=True)
class Block:
    """Commands, and their transcript."""

    comment: tuple[str, ...]
    commands: tuple[str, ...]
    transcript: tuple[str, ...]


def parse(text: str) -> tuple[Block, ...]:
    """The blocks of a story.

    Raises:
        BadStory: a block has no line of dashes.
    """
    blocks: list[Block] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = paragraph.split("\n")
        comment = tuple(line for line in lines if line.startswith("#"))
        rest = [line for line in lines if not line.startswith("#")]
        if rest and _LINE not in rest:
            raise BadStory(f"a block has no line of dashes after its commands: {rest[0]!r}")
        middle = rest.index(_LINE) if rest else 0
        blocks.append(Block(comment, tuple(rest[:middle]), tuple(rest[middle + 1 :])))
    return tuple(blocks)


def render(blocks: tuple[Block, ...]) -> str:
    """The text of a story; the opposite of `parse`."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> Iterator[str]:
    yield from block.comment
    if block.commands:
        yield from block.commands
        yield _LINE
        yield from block.transcript


def play(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The same story with the transcripts of today.

    Raises:
        BadStory: a command is unknown or cannot be understood, or a task of a broker failed unseen.
    """
    player = _Player()
    try:
        return tuple(
            Block(block.comment, block.commands, player.play(block.commands) if block.commands else ())
            for block in blocks
        )
    finally:
        player.close()


_Command: TypeAlias = Callable[[list[str]], None]


class _Player:
    """Plays one story on one cluster."""

    def __init__(self) -> None:
        self._cluster_or_none: SimulatedCluster | None = None
        self._told = 0
        self._names: dict[str, int] = {}
        self._commands: dict[str, _Command] = {
            "cluster": self._start,
            "topic": self._topic,
            "call": self._call,
            "bounce": lambda words: self._whom(words[0]).bounce(_ms(words[1])),
            "arm": self._arm,
            "lose-answer": self._lose_answer,
            "cut": self._cut,
            "reset": lambda words: self._cluster.reset_zookeeper_connection(self._whom(words[0]).id),
            "heal": self._heal,
            "elect": lambda words: self._cluster.begin(self._cluster.admin.elect_leaders()),
            "advance": lambda words: self._cluster.run_for(_ms(words[0])),
            "settle": lambda words: self._cluster.settle(),
        }
        self._verbs: dict[str, Callable[[SimulatedBroker], None]] = {
            "kill": SimulatedBroker.kill,
            "start": SimulatedBroker.begin_start,
            "pause": SimulatedBroker.pause,
            "resume": SimulatedBroker.resume,
            "stop": SimulatedBroker.begin_stop,
            "expire": SimulatedBroker.expire_session,
        }

    def play(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        for command in commands:
            word, *rest = command.split()
            try:
                if word in self._verbs:
                    self._verbs[word](self._whom(rest[0]))
                elif word in self._commands:
                    self._commands[word](rest)
                else:
                    known = ", ".join(sorted((*self._verbs, *self._commands)))
                    raise BadStory(f"command {command!r} is unknown; known are {known}")
            except (ClusterError, IndexError, KeyError, ValueError) as error:
                raise BadStory(f"command {command!r} cannot be understood: {error}") from error
        news = () if commands[0].startswith("cluster") else tuple(self._news())
        self._told = len(self._cluster.log_lines)
        return (*news, self._state())

    def close(self) -> None:
        if self._cluster_or_none is not None:
            self._cluster_or_none.close()
            if failures := self._cluster_or_none.loop.failures:
                raise BadStory("a task failed unseen: " + "; ".join(failures))

    @property
    def _cluster(self) -> SimulatedCluster:
        if self._cluster_or_none is None:
            raise BadStory("a story begins with `cluster brokers=N seed=N`")
        return self._cluster_or_none

    # ------------------------------------------------------------------ the transcript

    def _news(self) -> Iterator[str]:
        """The transcript lines since the last block."""
        for line in self._cluster.log_lines[self._told :]:
            record = decode_record(line)
            sentence = tell(record)
            if sentence is not None:
                yield f"{record.mono_ms / 1000:8.3f}  {record.node:<9}  {sentence}"

    def _state(self) -> str:
        znodes = self._cluster.znodes
        states = [
            f"{partition} {'none' if state is None or state.leader < 0 else state.leader}"
            f" ({' '.join(map(str, state.isr)) if state is not None else ''})"
            for partition, state in znodes.states().items()
        ]
        controller = znodes.controller_id()
        epoch = znodes.controller_epoch()
        return f"{self._cluster.now_ms / 1000:8.3f}  = controller {controller} epoch {epoch}; " + (
            "leaders (ISR): " + ", ".join(states) if states else "no topics"
        )

    # ------------------------------------------------------------------ commands

    def _start(self, words: list[str]) -> None:
        options = dict(word.split("=") for word in words)
        racks = options["racks"].split(",") if "racks" in options else None
        settings = {"auto.leader.rebalance.enable": {"on": "true", "off": "false"}[options.get("rebalance", "off")]}
        self._cluster_or_none = SimulatedCluster(
            int(options["seed"]), brokers=int(options["brokers"]), racks=racks, settings=settings
        )
        self._cluster.start()

    def _topic(self, words: list[str]) -> None:
        placed = (word.split(":") for word in words[1:])
        assignment = {int(partition): [int(number) for number in replicas.split(",")] for partition, replicas in placed}
        self._cluster.create_topic(words[0], assignment=assignment)

    def _call(self, words: list[str]) -> None:
        self._names[words[1]] = self._whom(words[0]).id

    def _arm(self, words: list[str]) -> None:
        whom, point, action, *duration = words
        self._whom(whom).arm(point, action, resume_after_ms=_ms(duration[0]) if duration else None)

    def _lose_answer(self, words: list[str]) -> None:
        node = self._whom(words[0]).node.name
        self._cluster.zookeeper.lost_answers.append(
            LostAnswer(node, words[1], applied={"applied": True, "lost": False}[words[2]])
        )

    def _cut(self, words: list[str]) -> None:
        whom = self._whom(words[0])
        if words[1] == "zookeeper":
            self._cluster.cut_from_zookeeper(whom.id)
        else:
            self._cluster.cut([whom.id], [self._whom(word).id for word in words[1].split(",")])

    def _heal(self, words: list[str]) -> None:
        self._cluster.heal_network()
        for number in self._cluster.broker_ids:
            self._cluster.heal_zookeeper(number)

    def _whom(self, word: str) -> SimulatedBroker:
        if word in self._names:
            return self._cluster.broker(self._names[word])
        if word == "controller":
            return self._cluster.controller()
        if match := _LEADER.fullmatch(word):
            return self._cluster.leader(match[1], int(match[2]))
        return self._cluster.broker(int(word))


def _ms(duration: str) -> float:
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"duration {duration!r} is not a number followed by ms or s")
    return float(match[1]) * (1 if match[2] == "ms" else 1000)
