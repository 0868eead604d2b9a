"""What a scenario needs: a stage to happen on, and what Apache's tools can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.zk.client import Op
from tests.golden.recording import Json
from understudy.admin_client import BROKER, TOPIC, AdminClient
from understudy.checkers.history import Znode, ZnodeTransaction, tree_after

Tree = Mapping[str, Znode]


class Refused(NamedTuple):
    """A tool's request was refused."""

    reason: str


class Stage(Protocol):
    """The brokers of a scenario, of which none runs at first, and an empty ZooKeeper."""

    def start(self, broker: int) -> None: ...

    def start_in_vain(self, broker: int) -> None:
        """Start a broker that cannot; returns once the process has ended by itself."""

    def kill(self, broker: int) -> None: ...

    def stop(self, broker: int) -> None:
        """SIGTERM; returns once the process has ended."""

    def pause(self, broker: int) -> None:
        """SIGSTOP, as in a long pause for garbage collection."""

    def resume(self, broker: int) -> None: ...

    def ask(self, request: Request) -> Refused | None:
        """Have a tool ask for `request`; returns once it has its answer."""

    def edit(self, *ops: Op) -> None:
        """One transaction by an operator: in a session that belongs to no broker."""

    def wait_until(self, condition: Callable[[Tree], bool], what: str) -> None:
        """Until `condition` holds of the znodes, and then until nothing happens any more."""

    def transactions(self) -> Sequence[ZnodeTransaction]: ...

    def requests(self) -> Mapping[int, Sequence[Json]]:
        """All that each broker has answered so far (`requests.py`)."""


def tree_of(stage: Stage) -> Tree:
    return tree_after(stage.transactions())


# -- what can be asked for


class Admins(Protocol):
    """The clients of a stage."""

    def __call__(self, broker: int | None = None) -> AdminClient:
        """One that asks everybody, or `broker` first. Raises NoBrokerAnswers: it is not registered."""


class Request(Protocol):
    """What one of Apache's tools asks for when it is run once."""

    async def put(self, admins: Admins) -> None:
        """Ask without the tool. Raises ApiError, NoBrokerAnswers: the tool would have failed."""


class TopicCreation(NamedTuple):
    """`kafka-topics --create`"""

    topic: str
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str] = {}

    async def put(self, admins: Admins) -> None:
        await admins().create_topic(self.topic, assignment=self.assignment, configs=self.configs)


class MorePartitions(NamedTuple):
    """`kafka-topics --alter --partitions`"""

    topic: str
    partitions: int
    assignment: Sequence[Sequence[int]] | None
    """The brokers of each partition that is new; None leaves it to the controller."""

    async def put(self, admins: Admins) -> None:
        await admins().create_partitions(self.topic, self.partitions, self.assignment)


class TopicDeletion(NamedTuple):
    """`kafka-topics --delete`"""

    topic: str

    async def put(self, admins: Admins) -> None:
        await admins().delete_topics(self.topic)


class Election(NamedTuple):
    """`kafka-leader-election`"""

    election_type: int
    partitions: tuple[TopicPartition, ...] | None
    """None: all."""

    async def put(self, admins: Admins) -> None:
        for partition, error in (
            await admins().elect_leaders(self.partitions, election_type=self.election_type)
        ).items():
            if error not in (Errors.NONE, Errors.ELECTION_NOT_NEEDED):
                raise ApiError(error, str(partition))


class ConfigChange(NamedTuple):
    """`kafka-configs`: None deletes a key; without changes it only describes."""

    resource_type: int
    name: str
    changes: Mapping[str, str | None]
    asked: int
    """The broker Kafka's tool happened to ask; any could have served it, but for a config of one broker."""

    async def put(self, admins: Admins) -> None:
        """The tool describes a config before it alters it."""
        admin = admins(self.asked)
        await admin.describe_config(self.resource_type, self.name)
        if self.changes:
            await admin.alter_config(self.resource_type, self.name, self.changes)


class Reassignment(NamedTuple):
    """`kafka-reassign-partitions --execute`; None takes a move back."""

    moves: Mapping[TopicPartition, Sequence[int] | None]

    async def put(self, admins: Admins) -> None:
        for error in (await admins().alter_partition_reassignments(self.moves)).values():
            if error is not None:
                raise error


class ReassignmentList(NamedTuple):
    """`kafka-reassign-partitions --list`"""

    async def put(self, admins: Admins) -> None:
        await admins().list_partition_reassignments()


class Verification(NamedTuple):
    """`kafka-reassign-partitions --verify`, of a reassignment that is over."""

    reassignment: Reassignment
    throttles: Sequence[ConfigChange]
    """What it takes away then, in the order in which the recorded tool did. It asks all brokers at once."""

    async def put(self, admins: Admins) -> None:
        moving = await admins().list_partition_reassignments()
        assert not moving.keys() & self.reassignment.moves.keys(), f"still on the move: {moving}"
        await _take_away(self.throttles, admins)


class Cancellation(NamedTuple):
    """`kafka-reassign-partitions --cancel`"""

    reassignment: Reassignment
    throttles: Sequence[ConfigChange]
    """As in a Verification."""

    async def put(self, admins: Admins) -> None:
        moving = (await admins().list_partition_reassignments(self.reassignment.moves)).keys()
        if moving:
            await admins().alter_partition_reassignments(dict.fromkeys(sorted(moving)))
        await _take_away(self.throttles, admins)


def without_throttles(resource_type: int, name: str, *, asked: int) -> ConfigChange:
    """The tool takes throttles away whether there are any or not."""
    of_topics = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    of_brokers = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    return ConfigChange(resource_type, name, dict.fromkeys(of_topics if resource_type == TOPIC else of_brokers), asked)


def throttles_of_brokers(*brokers: int) -> list[ConfigChange]:
    return [without_throttles(BROKER, str(broker), asked=broker) for broker in brokers]


async def _take_away(throttles: Iterable[ConfigChange], admins: Admins) -> None:
    for change in throttles:
        await admins(change.asked).alter_config(change.resource_type, change.name, change.changes)
