"""Scenes: lines for Kafka's tools and what happens to the cluster in between, with what the tools printed when it was
Kafka's.

kafka-topics --list       a tool; the bootstrap servers are added, zookeeper-shell gets its server
    exit code 0           indented: what it printed with Kafka, without what depends on when and where
file NAME TEXT            a file in the tools' folder
kill 3, start 3           a broker
settle                    until every broker knows what ZooKeeper says and all that can be in sync are
until no deletion         until nothing of that kind is going on: deletion, reassignment, election
differs WHY               the next tool prints something else with ours, on purpose
# …                       a remark
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kazoo.client import KazooClient

from tests.interop.mixed import operator, settle
from tests.interop.tools import MAIN_CLASSES, Tools
from understudy.picture import ClusterPicture
from understudy.testbed.local_cluster import LocalCluster

INDENT = "    "


class Line(NamedTuple):
    """One line of a scene."""

    verb: str
    rest: str
    differs: str = ""
    """Why ours may print something else; empty where it may not."""
    printed: str = ""
    """What came of it with Kafka: exit code and output."""

    def __str__(self) -> str:
        return f"{self.verb} {self.rest}".strip()

    @property
    def is_tool(self) -> bool:
        return self.verb in MAIN_CLASSES


class Printed(NamedTuple):
    """What came of a tool's line: its exit code and output, without what depends on when and where."""

    line: Line
    text: str


def parse(text: str) -> tuple[Line, ...]:
    """The lines of a scene; its form stands above."""
    lines: list[Line] = []
    differs = ""
    for written in filter(str.strip, text.splitlines()):
        verb, _, rest = written.partition(" ")
        if written.startswith(INDENT):
            said = (lines[-1].printed, written.removeprefix(INDENT))
            lines[-1] = lines[-1]._replace(printed="\n".join(filter(None, said)))
        elif verb == "differs":
            differs = rest
        elif verb != "#":
            lines.append(Line(verb, rest, differs))
            differs = ""
    return tuple(lines)


def recorded(text: str, printed: Sequence[Printed]) -> str:
    """The scene with what the tools print now."""
    fresh = iter(printed)
    written = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        written.append(line)
        if line.partition(" ")[0] in MAIN_CLASSES:
            written += [INDENT + said for said in next(fresh).text.splitlines()]
    return "\n".join(written) + "\n"


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster, and the tools to play a scene on it."""

    cluster: LocalCluster
    tools: Tools

    def play(self, lines: Sequence[Line]) -> list[Printed]:
        """What the tools print, line by line."""
        return [Printed(line, self._run(line)) for line in lines if line.is_tool or self._act(line)]

    def _run(self, line: Line) -> str:
        if line.verb == "zookeeper-shell":
            command = f"{line.verb} {self.cluster.zookeeper_connect} {line.rest}"
        else:
            # A tool that happens to try a dead broker first says so; which one it tries is chance.
            alive = ",".join(broker.address for broker in self.cluster.brokers if broker.is_running)
            command = f"{line.verb} {line.rest} --bootstrap-server {alive}"
        outcome = self.tools.run(command)
        return self._masked(f"exit code {outcome.rc}\n{outcome.stdout}\n{outcome.stderr}")

    def _act(self, line: Line) -> bool:
        """Do what is not a tool's; nothing is printed."""
        match line.verb:
            case "kill":
                self.cluster.broker(int(line.rest)).kill()
                self.cluster.wait_until(
                    lambda: int(line.rest) not in self.cluster.view.brokers(), f"broker {line.rest} is gone"
                )
            case "start":
                self.cluster.broker(int(line.rest)).start()
            case "settle":
                self.cluster.wait_until(lambda: in_sync(self.cluster.view.picture()), "who can be in sync is")
                settle(self.cluster, [broker.id for broker in self.cluster.brokers if broker.is_running])
            case "until":
                with operator(self.cluster) as zookeeper:
                    self.cluster.wait_until(lambda: not GOING_ON[line.rest.removeprefix("no ")](zookeeper), str(line))
            case "file":
                name, _, text = line.rest.partition(" ")
                (self.tools.directory / name).write_text(text)
            case _:
                raise ValueError(f"a scene knows no {line}")
        return False

    def _masked(self, text: str) -> str:
        for broker in self.cluster.brokers:
            text = text.replace(broker.address, f"<broker {broker.id}>").replace(
                f'"port":{broker.process.port}', f'"port":<port of {broker.id}>'
            )
        text = text.replace(self.cluster.zookeeper_connect, "<zookeeper>").replace(str(self.cluster.directory), "<run>")
        return without_chance(text)


MASKS = {
    r"^\[\d{4}-\d\d-\d\d [\d:,]+\] ": "",
    r"\bTopicId: [\w-]{22}": "TopicId: <id>",
    r'"topic_id":"[\w-]{22}"': '"topic_id":"<id>"',
    r'"timestamp":"\d+"': '"timestamp":"<ms>"',
    r"(Cluster ID: |\"id\":\")[\w-]{22}": r"\1<cluster id>",
    # The shell's own connection, whenever it gets to say so, be it in the middle of a line; each time with a newline in
    # front.
    r"\n(WATCHER::|WatchedEvent state:SyncConnected .*)\n": "",
    # Where in the tool an error was noticed is the tool's business.
    r"^\tat .*\n": "",
    r"^\t\.\.\. \d+ more\n": "",
}
"""What depends on when and where a tool ran."""


def without_chance(text: str) -> str:
    """`text` masked, without blank lines and blanks at the ends of lines."""
    for pattern, mask in MASKS.items():
        text = re.sub(pattern, mask, text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def in_sync(picture: ClusterPicture) -> bool:
    """Whether each partition that has a leader has all its live replicas in the ISR."""
    return all(
        seen.state is not None
        and (
            seen.state.leader_and_isr.leader not in picture.brokers
            or set(seen.assignment.replicas) & set(picture.brokers) == set(seen.state.leader_and_isr.isr)
        )
        for seen in picture.partitions.values()
    )


def _reassignments(zookeeper: KazooClient) -> bool:
    topics = [
        zookeeper.get(f"/brokers/topics/{topic}")[0].decode() for topic in zookeeper.get_children("/brokers/topics")
    ]
    return zookeeper.exists("/admin/reassign_partitions") is not None or any(
        re.search(r'"(adding|removing)_replicas":\{"', topic) for topic in topics
    )


GOING_ON: Mapping[str, Callable[[KazooClient], bool]] = {
    "deletion": lambda zookeeper: bool(zookeeper.get_children("/admin/delete_topics")),
    "reassignment": _reassignments,
    "election": lambda zookeeper: zookeeper.exists("/admin/preferred_replica_election") is not None,
}


def differences(printed: Iterable[Printed]) -> Iterator[str]:
    """Where the tools print something else than with Kafka, as diffs; and differences that are none."""
    for line, text in printed:
        if text == line.printed:
            if line.differs:
                yield f"{line}\n  prints the same as with Kafka, although «{line.differs}»"
        elif not line.differs:
            diff = difflib.unified_diff(
                line.printed.splitlines(), text.splitlines(), "with Kafka", "with ours", lineterm=""
            )
            yield "\n".join([str(line), *diff])
