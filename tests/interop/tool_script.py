"""Tool scripts: command lines for Kafka's tools and actions on the cluster, with the output recorded with Kafka.

kafka-topics --list       a tool; the bootstrap servers are added, and zookeeper-shell gets its server
    exit code 0           indented: its output with Kafka, masked where it depends on time and place
file NAME TEXT            writes a file in the tools' folder
kill 3, start 3           kills or starts a broker
produce orders 0 5        appends so many records to a partition, a second apart from 2023-11-14T22:13:20Z on
settle                    waits until all brokers have ZooKeeper's state, and all live replicas are in sync
until no deletion         waits until there is no such operation: deletion, reassignment, election
differs WHY               the next tool prints something else with our brokers, on purpose
# …                       a remark
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from kazoo.client import KazooClient

from brokers.machine.socket_network import SocketNetwork
from foundation.cluster.identifiers import TopicPartition
from foundation.records.record import Record, encode_records
from foundation.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.interop.mixed import operator, settle
from tests.interop.tools import MAIN_CLASSES, TIMEOUT_S, Outcome
from understudy.admin_client import AdminClient
from understudy.picture import ClusterPicture
from understudy.testbed.local_cluster import LocalCluster

INDENT = "    "
FIRST_TIMESTAMP = 1_700_000_000_000
PRODUCE_VERSION = 9


class Line(NamedTuple):
    """One line of a script, with the recorded output of a tool."""

    verb: str
    rest: str
    differs: str = ""
    """Why the tool may print something else with ours; empty if it may not."""
    printed: str = ""
    """The recorded exit code and output."""

    def __str__(self) -> str:
        return f"{self.verb} {self.rest}".strip()

    @property
    def is_tool(self) -> bool:
        return self.verb in MAIN_CLASSES


class RunsTools(Protocol):
    """What runs the tools of a script: Kafka's, or ours in their place."""

    @property
    def directory(self) -> Path:
        """The folder in which they run."""

    def run(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Outcome:
        """Run a command line to its end."""


class Printed(NamedTuple):
    """A tool's exit code and output, masked."""

    line: Line
    text: str


def parse(text: str) -> tuple[Line, ...]:
    """The lines of a script, in the format above."""
    lines: list[Line] = []
    differs = ""
    for written in filter(str.strip, text.splitlines()):
        verb, _, rest = written.partition(" ")
        if written.startswith(INDENT):
            line_printed = (lines[-1].printed, written.removeprefix(INDENT))
            lines[-1] = lines[-1]._replace(printed="\n".join(filter(None, line_printed)))
        elif verb == "differs":
            differs = rest
        elif verb != "#":
            lines.append(Line(verb, rest, differs))
            differs = ""
    return tuple(lines)


def recorded(text: str, printed: Sequence[Printed]) -> str:
    """The script with the present output of the tools."""
    fresh = iter(printed)
    written = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        written.append(line)
        if line.partition(" ")[0] in MAIN_CLASSES:
            written += [INDENT + line_printed for line_printed in next(fresh).text.splitlines()]
    return "\n".join(written) + "\n"


@dataclass(frozen=True, slots=True)
class ScriptRunner:
    """Runs a script on a cluster."""

    cluster: LocalCluster
    tools: RunsTools

    def run(self, lines: Sequence[Line]) -> list[Printed]:
        """Run the lines one by one; the output of each tool."""
        return [Printed(line, self._run(line)) for line in lines if line.is_tool or self._act(line)]

    def _run(self, line: Line) -> str:
        if line.verb == "zookeeper-shell":
            command = f"{line.verb} {self.cluster.zookeeper_connect} {line.rest}"
        else:
            # A tool that happens to connect to a dead broker first prints a warning.
            alive = ",".join(broker.address for broker in self.cluster.brokers if broker.is_running)
            command = f"{line.verb} {line.rest} --bootstrap-server {alive}"
        outcome = self.tools.run(command)
        return self._masked(f"exit code {outcome.rc}\n{outcome.stdout}\n{outcome.stderr}")

    def _act(self, line: Line) -> bool:
        """Run a line that is no tool; False, because it prints nothing."""
        match line.verb:
            case "kill":
                self.cluster.broker(int(line.rest)).kill()
                self.cluster.wait_until(
                    lambda: int(line.rest) not in self.cluster.view.brokers(), f"broker {line.rest} is gone"
                )
            case "start":
                self.cluster.broker(int(line.rest)).start()
            case "produce":
                topic, partition, count = line.rest.split()
                asyncio.run(self._produce(TopicPartition(topic, int(partition)), int(count)))
            case "settle":
                self.cluster.wait_until(lambda: in_sync(self.cluster.view.picture()), "all live replicas are in sync")
                settle(self.cluster, [broker.id for broker in self.cluster.brokers if broker.is_running])
            case "until":
                with operator(self.cluster) as zookeeper:
                    self.cluster.wait_until(
                        lambda: not IN_PROGRESS[line.rest.removeprefix("no ")](zookeeper), str(line)
                    )
            case "file":
                name, _, text = line.rest.partition(" ")
                (self.tools.directory / name).write_text(text)
            case _:
                raise ValueError(f"{line} is no line of a script")
        return False

    async def _produce(self, partition: TopicPartition, count: int) -> None:
        leader = self.cluster.view.leader(partition)
        assert leader is not None, f"{partition} has no leader"
        values = [Record(place, FIRST_TIMESTAMP + 1_000 * place, None, b"record") for place in range(count)]
        data = PartitionProduceData(index=partition.partition, records=encode_records(values))
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name=partition.topic, partition_data=(data,)),)
        )
        host, _, port = self.cluster.broker(leader).address.rpartition(":")
        answer = await AdminClient(SocketNetwork(), []).ask(host, int(port), request, version=PRODUCE_VERSION)
        assert isinstance(answer, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

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
    # The shell reports its connection at any time, even in the middle of a line, and each time after a newline.
    r"\n(WATCHER::|WatchedEvent state:SyncConnected .*)\n": "",
    # The usage after a wrong command line, of Kafka's tools and of ours.
    r"^(Option +Description|usage: understudy )(.|\n)*": "<usage>",
    # Stack traces depend on the tool's version.
    r"^\tat .*\n": "",
    r"^\t\.\.\. \d+ more\n": "",
}
"""Patterns of output that depends on time and place, with their masks."""


def without_chance(text: str) -> str:
    """`text` masked, without blank lines and trailing blanks."""
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


IN_PROGRESS: Mapping[str, Callable[[KazooClient], bool]] = {
    "deletion": lambda zookeeper: bool(zookeeper.get_children("/admin/delete_topics")),
    "reassignment": _reassignments,
    "election": lambda zookeeper: zookeeper.exists("/admin/preferred_replica_election") is not None,
}


def differences(printed: Iterable[Printed]) -> Iterator[str]:
    """The outputs that differ from those with Kafka, as diffs, and lines marked `differs` whose output does not."""
    for line, text in printed:
        if text == line.printed:
            if line.differs:
                yield f"{line}\n  prints the same as with Kafka, although «{line.differs}»"
        elif not line.differs:
            diff = difflib.unified_diff(
                line.printed.splitlines(), text.splitlines(), "with Kafka", "with ours", lineterm=""
            )
            yield "\n".join([str(line), *diff])
