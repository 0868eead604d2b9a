"""`understudy groups --zookeeper`: consumers from before Kafka 0.9, which kept groups and offsets in `/consumers`.

Groups of today's consumers are not in ZooKeeper, as the note on the standard error says; ask a broker about them. Only
Kafka up to 1.1 had the flag. Mirrors its `ZkConsumerGroupService`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from understudy.foundation.cluster.broker import SecurityProtocol
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_offsets import LATEST_TIMESTAMP
from understudy.foundation.zk.client import Failure
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import CLIENT_ID, Console, Surroundings
from understudy.kafka_tools.errors import JOPTSIMPLE, ToolError, UsageError
from understudy.kafka_tools.offsets import list_offsets
from understudy.kafka_tools.options import Options
from understudy.kafka_tools.zookeeper.session import ZooKeeperSession
from understudy.kafka_tools.zookeeper.tree import delete_tree, names_below

NOTE: Final = (
    "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer API)."
)
ACTIONS: Final = ("list", "describe", "delete")
BROKER_TIMEOUT_MS: Final = 5_000
MISSING: Final = "-"
_NOT_WITH_ZOOKEEPER: Final = ("members", "offsets", "state", "verbose")


class _Registration(msgspec.Struct):
    subscription: dict[str, int] = {}


class _Row(NamedTuple):
    """The columns of a partition, or of a consumer without one."""

    topic: str
    partition: str
    offset: str
    end: str
    lag: str
    consumer: str


def check(options: Options) -> str:
    """Return the action that the flags ask for. Raises UsageError or ToolError if they contradict each other."""
    if options.has("bootstrap-server"):
        raise UsageError("Option [bootstrap-server] is not valid with [zookeeper].")
    action = options.only_one_of(ACTIONS)
    if unavailable := [name for name in _NOT_WITH_ZOOKEEPER if options.has(name)]:
        listed = ", ".join(unavailable)
        raise ToolError(
            f"{JOPTSIMPLE}UnavailableOptionException",
            f"Option(s) [{listed}] are unavailable given other options on the command line",
        )
    if action == "describe":
        options.require("group")
    if action == "delete" and not options.has("group") and not options.has("topic"):
        raise UsageError("Option [delete] either takes [group], [topic], or both")
    options.forbid("group", "list")
    options.forbid("topic", "list", "describe")
    return action


class ZooKeeperGroups:
    """The actions of the tool. All raise ToolError, and what `KafkaZkClient` raises."""

    def __init__(self, session: ZooKeeperSession, surroundings: Surroundings, options: Options) -> None:
        self._client, self._zk = session
        self._surroundings = surroundings
        self._options = options
        self._console: Console = surroundings.console

    async def list(self) -> None:
        """Print the names of the groups."""
        for name in await self._names("/consumers"):
            self._console.print(name)

    # ------------------------------------------------------------------ describe

    async def describe(self) -> None:
        """Print the offsets of a group, and its consumers."""
        group = self._options.value("group") or ""
        if group not in await self._names("/consumers"):
            self._error(f"The consumer group '{group}' does not exist.")
            return
        rows = await self._rows(group)
        if not rows:
            return
        topic = max(15, *(len(row.topic) for row in rows))
        consumer = max(15, *(len(row.consumer) for row in rows))
        titles = _Row("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
        self._console.print()
        for row in (titles, *rows):
            self._console.print(
                f"{row.topic:<{topic}} {row.partition:<10} {row.offset:<15} {row.end:<15} {row.lag:<15} "
                f"{row.consumer:<{consumer}} "
            )

    async def _rows(self, group: str) -> Sequence[_Row]:
        partitions = [
            TopicPartition(topic, int(name))
            for topic in await self._names(f"/consumers/{group}/owners")
            for name in sorted(await self._names(f"/brokers/topics/{topic}/partitions"), key=int)
        ]
        ends = await self._log_ends(partitions)
        idle = list(await self._names(f"/consumers/{group}/ids"))
        rows = []
        for each in partitions:
            owner = await self._client.get(f"/consumers/{group}/owners/{each.topic}/{each.partition}")
            # An owner is a thread of a consumer.
            consumer = MISSING if isinstance(owner, Failure) else owner.data.decode().rpartition("-")[0]
            offset, end = await self._zk.consumer_offsets.read(group, each), ends.get(each)
            if offset is None:
                self._error(
                    f"Could not fetch offset from zookeeper for group '{group}' partition '{_shown(each)}' due to "
                    "missing offset data in zookeeper."
                )
            lag = None if offset is None or offset < 0 or end is None else end - offset
            rows.append(_Row(each.topic, str(each.partition), _number(offset), _number(end), _number(lag), consumer))
            idle = [name for name in idle if name != consumer]
        for consumer in idle:
            without = _Row(MISSING, MISSING, MISSING, MISSING, MISSING, consumer)
            rows += [without] * len(await self._subscribed(group, consumer))
        return rows

    async def _subscribed(self, group: str, consumer: str) -> Sequence[str]:
        node = await self._client.get(f"/consumers/{group}/ids/{consumer}")
        try:
            return (
                []
                if isinstance(node, Failure)
                else list(msgspec.json.decode(node.data, type=_Registration).subscription)
            )
        except msgspec.DecodeError:
            return []

    async def _log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the ends of the logs, from brokers; partitions are missing whose leader does not answer."""
        bootstrap = [
            f"{endpoint.host}:{endpoint.port}"
            for broker in (await self._zk.brokers.all()).values()
            for endpoint in broker.broker.endpoints
            if endpoint.security_protocol is SecurityProtocol.PLAINTEXT
        ]
        if not partitions or not bootstrap:
            return {}
        async with KafkaCluster(
            self._surroundings.network,
            bootstrap,
            client_id=CLIENT_ID,
            request_timeout_ms=BROKER_TIMEOUT_MS,
            api_timeout_ms=BROKER_TIMEOUT_MS,
        ) as cluster:
            found = await list_offsets(cluster, dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: end for partition, end in found.items() if not isinstance(end, ToolError)}

    # ------------------------------------------------------------------ delete

    async def delete(self) -> None:
        """Delete groups without consumers, or what they keep of a topic."""
        groups, topic = self._options.values("group"), self._options.value("topic")
        if groups:
            for group in groups:
                await self._delete(group, topic)
            return
        for group in await self._names("/consumers"):
            if topic in await self._names(f"/consumers/{group}/offsets"):
                await self._delete_of_topic(group, topic or "")
        self._console.print(
            f"Deleted consumer group information for all inactive consumer groups for topic '{topic}' in zookeeper."
        )

    async def _delete(self, group: str, topic: str | None) -> None:
        what = f"group '{group}'" if topic is None else f"group '{group}' topic '{topic}'"
        ids = await names_below(self._client, f"/consumers/{group}/ids")
        if isinstance(ids, Failure):
            self._error(f"Delete for {what} failed because group does not exist.")
        elif ids:
            self._error(f"Delete for {what} failed because its consumers are still active.")
        elif topic is None:
            await delete_tree(self._client, f"/consumers/{group}")
            self._console.print(f"Deleted all consumer group information for {what} in zookeeper.")
        else:
            await self._delete_of_topic(group, topic)
            self._console.print(f"Deleted consumer group information for {what} in zookeeper.")

    async def _delete_of_topic(self, group: str, topic: str) -> None:
        """Delete what a group keeps of a topic, and the whole group if it keeps nothing else."""
        if await self._names(f"/consumers/{group}/ids"):
            return
        if list(await self._names(f"/consumers/{group}/owners")) == [topic]:
            await delete_tree(self._client, f"/consumers/{group}")
            return
        for folder in ("owners", "offsets"):
            await delete_tree(self._client, f"/consumers/{group}/{folder}/{topic}")

    async def _names(self, path: str) -> Sequence[str]:
        """Return the names of a znode's children; none if there is no such znode."""
        names = await names_below(self._client, path)
        return () if isinstance(names, Failure) else names

    def _error(self, message: str) -> None:
        self._console.print(f"Error: {message}")


def _number(number: int | None) -> str:
    return MISSING if number is None else str(number)


def _shown(partition: TopicPartition) -> str:
    return f"[{partition.topic},{partition.partition}]"
