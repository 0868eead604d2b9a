"""A `KafkaZkClient` for tests, over one session of the ZooKeeper contract, with its event log; answers can be lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from tests.contracts.subject import Ensemble, Session
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.fences import Fences, Switch
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.zk.client import (
    Children,
    Create,
    Delete,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    OpResult,
    SetData,
    Stat,
    ZNodeData,
    ZooKeeperClient,
)
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.foundation.zk.transactions import Transactions

_T = TypeVar("_T")
Hook: TypeAlias = Callable[[], Awaitable[None]]


class StoppedClock:
    def monotonic_ms(self) -> float:
        return 0.0

    def wall_ms(self) -> float:
        return 0.0


async def nothing() -> None:
    """Do nothing; the default hook."""


class UnreliableClient:
    """A ZooKeeper client that loses a number of answers (the request is applied) and of requests (it is not).

    The session counts as connected again at once; real cuts are tested by `tests/contracts`.

    Attributes:
        before_write, before_multi: called before each such request is sent.
        after_multi: called after each transaction, before its answer is returned.
    """

    def __init__(self, zk: ZooKeeperClient) -> None:
        self._zk = zk
        self.lose_answers = 0
        self.lose_requests = 0
        self.sent: list[Sequence[Op]] = []
        self.before_write: Hook = nothing
        self.before_multi: Hook = nothing
        self.after_multi: Hook = nothing

    @property
    def session_id(self) -> int:
        return self._zk.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._zk.session_timeout_ms

    @property
    def last_zxid(self) -> int:
        return self._zk.last_zxid

    async def connected(self) -> bool:
        return await self._zk.connected()

    async def close(self) -> None:
        await self._zk.close()

    def _loses(self, what: str) -> bool:
        left: int = getattr(self, what)
        setattr(self, what, max(left - 1, 0))
        return left > 0

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        return Failure.UNKNOWN if self._loses("lose_requests") else await self._zk.get(path, watch=watch)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        return Failure.UNKNOWN if self._loses("lose_requests") else await self._zk.exists(path, watch=watch)

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        return Failure.UNKNOWN if self._loses("lose_requests") else await self._zk.children(path, watch=watch)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        """Lose every second answer, as a cut in the middle does."""
        answers = await self._zk.get_many(paths, watch=watch)
        if self._loses("lose_requests"):
            return [answer if position % 2 else Failure.UNKNOWN for position, answer in enumerate(answers)]
        return answers

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure:
        if self._loses("lose_requests"):
            return Failure.UNKNOWN
        await self.before_write()
        answer = await self._zk.write(op)
        return Failure.UNKNOWN if self._loses("lose_answers") else answer

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        self.sent.append(ops)
        if self._loses("lose_requests"):
            return Failure.UNKNOWN
        await self.before_multi()
        answer = await self._zk.multi(ops)
        await self.after_multi()
        return Failure.UNKNOWN if self._loses("lose_answers") else answer


class Store:
    """The `KafkaZkClient` under test, the session below it, and its event log."""

    def __init__(self, session: Session, *, switched_off: Collection[Switch] = ()) -> None:
        self.session = session
        self.lines: list[bytes] = []
        self.events = EventLog(run="r", node="n", incarnation=1, clock=StoppedClock(), write=self.lines.append)
        self.fences = Fences(self.events, switched_off=switched_off)
        self.below = UnreliableClient(session.zk)
        self.zk = KafkaZkClient(self.below, events=self.events, fences=self.fences)
        self.transactions = Transactions(self.below, events=self.events, fences=self.fences)

    @property
    def raw(self) -> ZooKeeperClient:
        return self.session.zk

    def records(self, type_name: str) -> list[dict[str, Any]]:
        """The payloads of one type, in order."""
        return [line["data"] for line in map(msgspec.json.decode, self.lines) if line["type"] == type_name]


async def store(ensemble: Ensemble, *, switched_off: Collection[Switch] = ()) -> Store:
    return Store(await ensemble.open(), switched_off=switched_off)


async def controller(
    ensemble: Ensemble, broker_id: int = 1, *, switched_off: Collection[Switch] = ()
) -> tuple[Store, int]:
    """A store whose broker is the elected controller, with the top-level paths created, and its `epoch_zk_version`."""
    opened = await store(ensemble, switched_off=switched_off)
    await opened.zk.create_top_level_paths()
    elected = await opened.zk.controller.register_and_increment_epoch(BrokerId(broker_id), timestamp_ms=0)
    return opened, elected.epoch_zk_version


def broker(broker_id: int, port: int = 9092) -> Broker:
    return Broker(id=BrokerId(broker_id), endpoints=(EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "h", port),))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


def partitions(count: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def led_by(leader: int, *, leader_epoch: int = 0, partition_epoch: int = 0) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), leader_epoch, ids(leader), partition_epoch=partition_epoch)


def must(found: _T | Failure | None) -> _T:
    assert found is not None
    assert not isinstance(found, Failure)
    return found
