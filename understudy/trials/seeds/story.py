"""Runs stories: scenarios in a text file, each command followed by the recorded transcript of what the brokers did.

    # What the story shows, in a sentence or two.

    cluster brokers=3 seed=1
    ----
       0.000 s  = controller 1 epoch 1; no topics

    kill controller
    advance 8s
    ----
    ...

A story consists of blocks, separated by empty lines. A block has its commands, one per line, a line of dashes, and the
transcript: a line for each record that the nodes wrote to their event logs meanwhile (see `story_sentences`), and the
state of the cluster after the block. The block that starts the cluster has only the state. Times count from the first
record, which is written at the start of virtual time. `tests/stories` compares each transcript with the one in the
file. The format follows the interaction tests of etcd-io/raft.

Commands:
    cluster brokers=N seed=N [racks=a,b,c] [rebalance=on]
                                        start all brokers and wait until the cluster has settled; this is the first
                                        command. Without `rebalance=on` no leader moves to its preferred replica by
                                        itself (auto.leader.rebalance.enable)
    topic NAME 0:1,2,3 1:2,3,1          create a topic with this assignment, through a client
    call WHOM NAME                      give the broker a name that later commands use
    kill|start|pause|resume|stop|expire WHOM
                                        inject that fault, or start the broker; `expire` ends its session
    bounce WHOM 200ms                   kill the broker, and start it again after that time
    arm WHOM POINT pause|crash [8s]     pause or crash the broker when it reaches the named point; a pause ends after
                                        the time given
    lose-answer WHOM PATH applied|lost  break the broker's connection at its next write to a path that contains PATH,
                                        after (`applied`) or before (`lost`) ZooKeeper applies it
    cut WHOM zookeeper|WHOM,WHOM        hold all traffic between the broker and ZooKeeper or other brokers
    reset WHOM zookeeper                break the broker's connection to ZooKeeper; it may connect again at once
    heal                                deliver the held traffic, and let all traffic flow
    elect                               elect preferred leaders, through a client
    advance 8s                          let time pass
    settle                              let time pass until the cluster has settled
WHOM names a broker: by its id, as `controller`, as `leader(orders/0)`, or by a name given by `call`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.foundation.times import moment
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.story_sentences import story_sentence

_LINE = "----"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s)")
_LEADER = re.compile(r"leader\(([^/]+)/(\d+)\)")


class BadStory(Exception):
    """A story cannot be run. The message names the command and what was expected."""


@dataclass(frozen=True, slots=True)
class Block:
    """The comment, commands and transcript of one block of a story."""

    comment: tuple[str, ...]
    commands: tuple[str, ...]
    transcript: tuple[str, ...]


def parse(text: str) -> tuple[Block, ...]:
    """Parse the text of a story into its blocks.

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
    """Format blocks as the text of a story; the opposite of `parse`."""
    return "\n\n".join("\n".join(_lines(block)) for block in blocks) + "\n"


def _lines(block: Block) -> Iterator[str]:
    yield from block.comment
    if block.commands:
        yield from block.commands
        yield _LINE
        yield from block.transcript


def play(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Run a story, and return its blocks with the transcripts of this run.

    Raises:
        BadStory: a command is unknown or cannot be understood, or a broker's task failed with an unhandled exception.
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
    """Runs the commands of one story on one cluster."""

    def __init__(self) -> None:
        self._cluster_or_none: SimulatedCluster | None = None
        self._described = 0
        """Number of lines of the event logs that are in earlier transcripts."""
        self._names: dict[str, int] = {}
        self._commands: dict[str, _Command] = {
            "cluster": self._start,
            "topic": self._topic,
            "call": self._call,
            "bounce": lambda words: self._broker(words[0]).bounce(_ms(words[1])),
            "arm": self._arm,
            "lose-answer": self._lose_answer,
            "cut": self._cut,
            "reset": lambda words: self._cluster.reset_zookeeper_connection(self._broker(words[0]).id),
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
        """Run the commands of one block, and return its transcript."""
        for command in commands:
            word, *rest = command.split()
            try:
                if word in self._verbs:
                    self._verbs[word](self._broker(rest[0]))
                elif word in self._commands:
                    self._commands[word](rest)
                else:
                    known = ", ".join(sorted((*self._verbs, *self._commands)))
                    raise BadStory(f"command {command!r} is unknown; known are {known}")
            except (ClusterError, IndexError, KeyError, ValueError) as error:
                raise BadStory(f"command {command!r} cannot be understood: {error}") from error
        lines = () if commands[0].startswith("cluster") else tuple(self._new_lines())
        self._described = len(self._cluster.log_lines)
        return (*lines, self._state())

    def close(self) -> None:
        if self._cluster_or_none is not None:
            self._cluster_or_none.close()
            if failures := self._cluster_or_none.loop.failures:
                raise BadStory("a task failed with an unhandled exception: " + "; ".join(failures))

    @property
    def _cluster(self) -> SimulatedCluster:
        if self._cluster_or_none is None:
            raise BadStory("a story begins with `cluster brokers=N seed=N`")
        return self._cluster_or_none

    # ------------------------------------------------------------------ the transcript

    def _new_lines(self) -> Iterator[str]:
        """Yield the transcript lines for the records since the last block."""
        for line in self._cluster.log_lines[self._described :]:
            record = decode_record(line)
            sentence = story_sentence(record)
            if sentence is not None:
                yield f"{moment(record.mono_ms):>10}  {record.node:<9}  {sentence}"

    def _state(self) -> str:
        """Return the last line of a transcript: the controller, and the leader and ISR of every partition."""
        znodes = self._cluster.znodes
        states = [
            f"{partition} {'none' if state is None or state.leader < 0 else state.leader}"
            f" ({' '.join(map(str, state.isr)) if state is not None else ''})"
            for partition, state in znodes.states().items()
        ]
        controller = znodes.controller_id()
        epoch = znodes.controller_epoch()
        return f"{moment(self._cluster.now_ms):>10}  = controller {controller} epoch {epoch}; " + (
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
        self._names[words[1]] = self._broker(words[0]).id

    def _arm(self, words: list[str]) -> None:
        name, point, action, *duration = words
        self._broker(name).arm(point, action, resume_after_ms=_ms(duration[0]) if duration else None)

    def _lose_answer(self, words: list[str]) -> None:
        node = self._broker(words[0]).node.name
        self._cluster.zookeeper.lost_answers.append(
            LostAnswer(node, words[1], applied={"applied": True, "lost": False}[words[2]])
        )

    def _cut(self, words: list[str]) -> None:
        broker = self._broker(words[0])
        if words[1] == "zookeeper":
            self._cluster.cut_from_zookeeper(broker.id)
        else:
            self._cluster.cut(broker.id, [self._broker(word).id for word in words[1].split(",")])

    def _heal(self, words: list[str]) -> None:
        self._cluster.heal_network()
        for number in self._cluster.broker_ids:
            self._cluster.heal_zookeeper(number)

    def _broker(self, word: str) -> SimulatedBroker:
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
