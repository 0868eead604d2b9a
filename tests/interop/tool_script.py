r"""Tool scripts: command lines for Kafka's tools and actions on the cluster, with the output recorded with Kafka.

kafka-topics --list       a tool; the bootstrap servers are added, and zookeeper-shell gets its server
<zookeeper>               in a command line: ZooKeeper's address, in place of bootstrap servers
kafka-… < NAME            the same with a file as its standard input
<log of orders-0>         in a command line: the folder of a replica of a partition
    exit code 0           indented: its output with Kafka, masked if it depends on time and place
file NAME TEXT            writes a file in the tools' folder
kill 3, start 3           kills or starts a broker
produce orders 0 5        appends 5 records to a partition, a second apart from 2023-11-14T22:13:20Z on
lines NAME TEXT           writes a file of lines; \n and \t are a newline and a tab
member NAME GROUP TOPIC   starts kafka-console-consumer as a member of a group, with this client id; it commits nothing
leave NAME                ends it
until 2 members in GROUP  waits until a group is stable with 2 members
settle                    waits until all brokers have ZooKeeper's state, and all live replicas are in sync
until no deletion         waits until there is no such operation: deletion, reassignment, election
beside                    the next tool runs beside the lines after it; the script ends when it has ended
differs WHY               the next tool prints something else with our brokers, on purpose
# …                       a remark
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from kazoo.client import KazooClient

from tests.interop.mixed import operator, settle
from tests.interop.tools import NAMES, TIMEOUT_S, Outcome
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

INDENT = "    "
FIRST_TIMESTAMP = 1_700_000_000_000
PRODUCE_VERSION = 9
DESCRIBE_GROUPS_VERSION = 5
BOOTSTRAP_FIRST = ("kafka-transactions",)
"""Tools that take the bootstrap servers before the name of an action."""
ZOOKEEPER = "<zookeeper>"
FOLDER = re.compile(r"<log of ([\w-]+)>")


class Line(NamedTuple):
    """One line of a script, with the recorded output of a tool."""

    verb: str
    rest: str
    differs: str = ""
    """Why the tool may print something else with ours; empty if it may not."""
    printed: str = ""
    """The recorded exit code and output."""
    is_beside: bool = False
    """Whether the tool runs beside the lines after it."""

    def __str__(self) -> str:
        return f"{self.verb} {self.rest}".strip()

    @property
    def is_tool(self) -> bool:
        return self.verb in NAMES


class RunsTools(Protocol):
    """What runs the tools of a script: Kafka's, or ours in their place."""

    @property
    def directory(self) -> Path:
        """The folder in which they run."""

    def run(self, line: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> Outcome:
        """Run a command line to its end."""

    def start(self, line: str, log: Path) -> ChildProcess:
        """Start a command line; its output goes to `log`."""


class Printed(NamedTuple):
    """A tool's exit code and output, masked."""

    line: Line
    text: str


def parse(text: str) -> tuple[Line, ...]:
    """The lines of a script, in the format above."""
    lines: list[Line] = []
    differs, is_beside = "", False
    for written in filter(str.strip, text.splitlines()):
        verb, _, rest = written.partition(" ")
        if written.startswith(INDENT):
            line_printed = (lines[-1].printed, written.removeprefix(INDENT))
            lines[-1] = lines[-1]._replace(printed="\n".join(filter(None, line_printed)))
        elif verb == "differs":
            differs = rest
        elif verb == "beside":
            is_beside = True
        elif verb != "#":
            lines.append(Line(verb, rest, differs, is_beside=is_beside))
            differs, is_beside = "", False
    return tuple(lines)


def recorded(text: str, printed: Sequence[Printed]) -> str:
    """The script with the present output of the tools."""
    fresh = iter(printed)
    written = []
    for line in text.splitlines():
        if line.startswith(INDENT):
            continue
        written.append(line)
        if line.partition(" ")[0] in NAMES:
            written += [INDENT + line_printed for line_printed in next(fresh).text.splitlines()]
    return "\n".join(written) + "\n"


@dataclass(frozen=True, slots=True)
class ScriptRunner:
    """Runs a script on a cluster."""

    cluster: LocalCluster
    tools: RunsTools
    members: dict[str, ChildProcess] = field(default_factory=dict)
    """The members of groups that the script has started, by name."""

    def run(self, lines: Sequence[Line]) -> list[Printed]:
        """Run the lines one by one, but for tools that run beside others; the output of each tool."""
        with ThreadPoolExecutor(max_workers=max(1, len(lines))) as pool:
            try:
                ran = [(line, self._start(line, pool)) for line in lines if line.is_tool or self._act(line)]
                return [Printed(line, text.result()) for line, text in ran]
            finally:
                for member in self.members.values():
                    member.kill()

    def _start(self, line: Line, pool: ThreadPoolExecutor) -> Future[str]:
        """Run a tool; return before its end if it runs beside others."""
        text = pool.submit(self._run, line)
        if not line.is_beside:
            text.result()
        return text

    def _run(self, line: Line) -> str:
        stdin = ""
        if line.verb == "zookeeper-shell":
            command = f"{line.verb} {self.cluster.zookeeper_connect} {line.rest}"
        elif ZOOKEEPER in line.rest:
            command = f"{line.verb} {line.rest.replace(ZOOKEEPER, self.cluster.zookeeper_connect)}"
        else:
            command, _, file = line.rest.partition(" < ")
            stdin = (self.tools.directory / file).read_text() if file else ""
            words = [FOLDER.sub(self._log_folder, command), self._bootstrap(line)]
            command = " ".join((line.verb, *(reversed(words) if line.verb in BOOTSTRAP_FIRST else words)))
        outcome = self.tools.run(command, stdin)
        return self._masked(f"exit code {outcome.rc}\n{outcome.stdout}\n{outcome.stderr}")

    def _bootstrap(self, line: Line) -> str:
        """The flag that names the bootstrap servers."""
        # A tool that happens to connect to a dead broker first prints a warning.
        alive = ",".join(broker.address for broker in self.cluster.brokers if broker.is_running)
        match line.verb:
            case "kafka-dump-log":
                return ""
            case "kafka-producer-perf-test":
                return f"bootstrap.servers={alive}" if "--producer-props" in line.rest else ""
        return f"--bootstrap-server {alive}"

    def _log_folder(self, name: re.Match[str]) -> str:
        """The folder of a partition on the first broker that has a replica."""
        [folder, *_] = sorted(self.cluster.directory.glob(f"broker-*/data/{name[1]}"))
        return str(folder)

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
            case "member":
                self._start_member(*line.rest.split())
            case "leave":
                member = self.members.pop(line.rest)
                member.ask_to_end()
                assert member.wait(TIMEOUT_S), f"member {line.rest} does not end"
            case "until" if " members in " in line.rest:
                count, _, group = line.rest.partition(" members in ")
                self.cluster.wait_until(lambda: self._stable_members(group) == int(count), str(line))
            case "until":
                with operator(self.cluster) as zookeeper:
                    self.cluster.wait_until(
                        lambda: not IN_PROGRESS[line.rest.removeprefix("no ")](zookeeper), str(line)
                    )
            case "file":
                name, _, text = line.rest.partition(" ")
                (self.tools.directory / name).write_text(text)
            case "lines":
                name, _, text = line.rest.partition(" ")
                text = text.replace("\\n", "\n").replace("\\t", "\t")
                (self.tools.directory / name).write_text(text + "\n")
            case _:
                raise ValueError(f"{line} is no line of a script")
        return False

    def _start_member(self, name: str, group: str, topic: str) -> None:
        properties = f"--consumer-property client.id={name} --consumer-property enable.auto.commit=false"
        line = Line("kafka-console-consumer", f"--topic {topic} --group {group} {properties}")
        command = f"{line} {self._bootstrap(line)}"
        self.members[name] = self.tools.start(command, self.tools.directory / f"{name}.log")

    def _stable_members(self, group: str) -> int:
        """How many members a group has, -1 while it is not stable."""
        for broker in self.cluster.brokers:
            host, _, port = broker.address.rpartition(":")
            request = DescribeGroupsRequest(groups=(group,))
            answer = self.cluster.view.run(
                AdminClient(SocketNetwork(), []).ask(host, int(port), request, version=DESCRIBE_GROUPS_VERSION)
            )
            assert isinstance(answer, DescribeGroupsResponse)
            if answer.groups[0].group_state == "Stable":
                return len(answer.groups[0].members)
        return -1

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
        text = re.sub(rf"{re.escape(str(self.cluster.directory))}/broker-\d+/data/([\w-]+-\d+)/", r"<log of \1>/", text)
        for broker in self.cluster.brokers:
            text = text.replace(broker.address, f"<broker {broker.id}>").replace(
                f'"port":{broker.process.port}', f'"port":<port of {broker.id}>'
            )
        text = (
            text.replace(self.cluster.zookeeper_connect, "<zookeeper>")
            .replace(str(self.cluster.directory), "<run>")
            .replace(str(self.tools.directory), "<tools>")
        )
        return without_chance(text)


MASKS = {
    r"^\[\d{4}-\d\d-\d\d [\d:,]+\] ": "",
    r"\bTopicId: [\w-]{22}": "TopicId: <id>",
    r'"topic_id":"[\w-]{22}"': '"topic_id":"<id>"',
    r'"timestamp":"\d+"': '"timestamp":"<ms>"',
    r"(Cluster ID: |\"id\":\")[\w-]{22}": r"\1<cluster id>",
    # The shell reports its connection at any time, even in the middle of a line, and each time after a newline.
    r"\n(WATCHER::|WatchedEvent state:SyncConnected .*)\n": "",
    # What newer releases of Java say of Kafka's jars.
    r"^WARNING: .*(sun\.misc\.Unsafe|terminally dep|maintainers of|[Rr]estricted meth|loadLibrary|native-acc).*\n": "",
    # The packages of exceptions of releases before 3.
    r"\bkafka\.(?:common|admin)\.(?=Admin\w+Exception)": "org.apache.kafka.server.common.",
    # Kafka chooses the brokers of the groups' topic at random.
    r"<broker \d+>  \(\d+\)": "<coordinator>",
    # What the reader of CSV says of a line in the other of its two formats.
    r"^com\.fasterxml\.jackson\..*\n at \[Source: .*\n": "",
    # The usage after a wrong command line, of Kafka's tools and of ours.
    r"^(Option +Description|usage: understudy )(.|\n)*": "<usage>",
    # Measured or drawn values: ids of members, groups and producers, rates and durations.
    r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "-<uuid>",
    r"\b(console-consumer-|perf-consumer-)\d+\b": r"\1<number>",
    r"(records sent, ).*": r"\1<measured>",
    r"^\d{4}-\d\d-\d\d [\d:]+, \d{4}-\d\d-\d\d [\d:]+, ([\d.]+), [^,]+, (\d+), .*": r"<measured> \1 MB, \2 records",
    r"^\d{4}-\d\d-\d\d [\d:]+, 0, ([\d.]+), [^,]+, (\d+), .*": r"<measured> \1 MB, \2 records",
    rf"((Create|LogAppend)Time:) ?(?!{FIRST_TIMESTAMP // 100_000_000})\d{{13}}( size: .* crc: )\d+": r"\1 <ms>\3<crc>",
    rf"((Create|LogAppend)Time:) ?(?!{FIRST_TIMESTAMP // 100_000_000})\d{{13}}": r"\1 <ms>",
    rf"\b((?:commit|currentState|last)?[tT]imestamp\"?: ?)(?!{FIRST_TIMESTAMP // 100_000_000})\d{{13}}": r"\1<ms>",
    r"\b(producerId: )\d+": r"\1<id>",
    # A record takes more bytes if it was read later than the first one of its batch.
    r"(producerId: <id> .* position: )\d+( .* size: )\d+": r"\1<bytes>\2<bytes>",
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


def restore(cluster: LocalCluster) -> None:
    """Start every broker, and delete the topics, the configs of brokers and the quotas that a script has left."""
    for broker in cluster.brokers:
        if not broker.is_running:
            broker.start()
    with operator(cluster) as zookeeper:
        for topic in zookeeper.get_children("/brokers/topics"):
            zookeeper.ensure_path(f"/admin/delete_topics/{topic}")
        cluster.wait_until(lambda: not IN_PROGRESS["deletion"](zookeeper), "the script's topics are deleted")
        for kind in ("brokers", "clients", "users"):
            for entity in _entities(zookeeper, kind):
                zookeeper.delete(f"/config/{entity}", recursive=True)
                change = json.dumps({"version": 2, "entity_path": entity}).encode()
                zookeeper.create("/config/changes/config_change_", change, sequence=True)


def _entities(zookeeper: KazooClient, kind: str) -> list[str]:
    """Return the paths of the entities that have configs, below `/config`, a user's clients before the user."""
    found: list[str] = []
    for name in zookeeper.get_children(f"/config/{kind}"):
        if zookeeper.exists(f"/config/{kind}/{name}/clients"):
            found += _entities(zookeeper, f"{kind}/{name}/clients")
        found.append(f"{kind}/{name}")
    return found


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
