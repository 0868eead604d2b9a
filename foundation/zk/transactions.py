"""Repeats requests whose answer was lost, and sends many fenced writes in one transaction.

Mirrors `retryRequestsUntilConnected` of `kafka.zk.KafkaZkClient`, with two differences (docs/inside/decisions/0002):

- Kafka sends each fenced write as a transaction of its own. Here up to `MAX_OPS` writes share one check of
  `/controller_epoch`; after a conflict the operations that conflict are dropped and the others sent again.
- Kafka sends a write again after a lost answer, and may take its own success for a conflict. Here a conflict after a
  lost answer counts as success if ZooKeeper holds what was meant. This is sound: once the session has resumed,
  nothing of its old connection is applied any more, and a read never returns older data than the conflict was with.

This module deals with paths and bytes, not with topics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from understudy.foundation.eventlog.fences import Fence, Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import ZkWrite, ZkWriteDone
from understudy.foundation.zk.client import (
    MATCH_ANY_VERSION,
    MAX_REQUEST_BYTES,
    Check,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    OpResult,
    SetData,
    Stat,
    Updated,
    ZNodeData,
    ZooKeeperClient,
    request_bytes,
)
from understudy.foundation.zk.znodes import ControllerEpochZNode, parent

Write: TypeAlias = Create | SetData | Delete

MAX_OPS = 500
"""Maximum number of writes in one transaction: with more nothing gets faster, and a conflict costs more."""

MAX_IN_FLIGHT = 10
"""Maximum number of transactions sent before the first is answered (`zookeeper.max.in.flight.requests`)."""

MAX_LOST_ANSWERS = 20
"""Maximum number of lost answers to one request before it fails with UNKNOWN; the session was connected again between
any two."""

MAX_CONFLICT_ROUNDS = 4
"""Maximum number of times that a transaction is sent again without the conflicting operations; then the rest are sent
one by one."""

MAX_ROUNDS = 5
"""Maximum number of rounds of reading, deciding and writing after another client wrote in between; then it fails."""

_PATHS_SHOWN = 3
_T = TypeVar("_T")


class ControllerMoved(Exception):
    """Another broker is controller now: the epoch check of a write failed, or the election was lost."""


class SessionLost(Exception):
    """The session of this client has expired; every request fails from now on."""


class ZooKeeperFailure(Exception):
    """ZooKeeper refused a request that must not fail here. The message names path and reason."""

    def __init__(self, failure: Failure, what: str) -> None:
        super().__init__(f"{what}: {failure.value}")
        self.failure = failure


class Fenced(NamedTuple):
    """The fence of a write: it is applied only while `/controller_epoch` is at this version."""

    epoch_zk_version: int


class Transactions:
    """Sends requests over one session until they are answered.

    All methods raise `SessionLost` once the session has expired, and `ZooKeeperFailure` if answers keep being lost.
    """

    def __init__(self, client: ZooKeeperClient, *, events: EventLog, fences: Fences) -> None:
        self.client = client
        self._events = events
        self.fences = fences

    # ------------------------------------------------------------------ reads

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | None:
        return _present(await self._answered(lambda: self.client.get(path, watch=watch), f"get {path}"), f"get {path}")

    async def get_optional(self, path: str, *, watch: bool) -> ZNodeData | None:
        """Read a znode that may be absent; `watch` uses exists, so that a watch stays on an absent one."""
        if watch and await self.exists(path, watch=True) is None:
            return None
        return await self.get(path)

    async def must_get(self, path: str) -> ZNodeData:
        """Read a znode that a conflict has just shown to exist; `ZooKeeperFailure` (NO_NODE) if it is gone."""
        node = await self.get(path)
        if node is None:
            raise ZooKeeperFailure(Failure.NO_NODE, f"{path} existed a moment ago")
        return node

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return _present(
            await self._answered(lambda: self.client.exists(path, watch=watch), f"exists {path}"), f"exists {path}"
        )

    async def children(self, path: str, *, watch: bool = False) -> Children | None:
        answer = await self._answered(lambda: self.client.children(path, watch=watch), f"children of {path}")
        return _present(answer, f"children of {path}")

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        """Read many znodes; one result for each path, in order, none of them UNKNOWN."""
        answers = await self.client.get_many(paths, watch=watch)
        for _ in range(MAX_LOST_ANSWERS):
            self._check_session(answers)
            lost = [position for position, answer in enumerate(answers) if answer is Failure.UNKNOWN]
            if not lost:
                return answers
            await self._connected()
            again = await self.client.get_many([paths[position] for position in lost], watch=watch)
            for position, answer in zip(lost, again, strict=True):
                answers[position] = answer
        raise ZooKeeperFailure(Failure.UNKNOWN, f"get of {len(paths)} znodes, {paths[0]} first")

    # ------------------------------------------------------------------ unfenced writes

    async def write(self, op: Write, purpose: str, *, adopts: bool = True) -> OpResult | Failure:
        """Send one write, again after a lost answer.

        A conflict after a lost answer counts as success if ZooKeeper holds what `op` would have written. An
        operation that cannot conflict may be applied twice, the second time over what others wrote in between: a
        sequential create, a set or delete at any version, a create of a znode deleted meanwhile. Kafka does the same.

        Args:
            adopts: False if another client may write the same and only one of them may succeed.
        """
        unsure = False
        for _ in range(MAX_LOST_ANSWERS):
            seq = self._record_write(purpose, (op,), None)
            answer = await self.client.write(op)
            self._record_outcome(seq, answer)
            if answer is Failure.UNKNOWN:
                unsure = True
                await self._connected()
            elif isinstance(answer, Failure) and unsure and adopts:
                found = (await self._compare_with_zookeeper((op,), unsure))[0]
                return answer if found is None else found
            else:
                return answer
        raise ZooKeeperFailure(Failure.UNKNOWN, f"write of {op.path}")

    async def multi(self, ops: Sequence[Op], purpose: str) -> MultiOk | MultiFailed:
        """Send one transaction, again after a lost answer.

        So a conflict may be with its own success; the caller has to check (EL-6, BR-3).

        Raises:
            ZooKeeperFailure: TOO_LARGE, or UNKNOWN after too many lost answers.
        """
        for _ in range(MAX_LOST_ANSWERS):
            seq = self._record_write(purpose, ops, None)
            answer = await self.client.multi(ops)
            self._record_outcome(seq, answer)
            if answer is Failure.UNKNOWN:
                await self._connected()
            elif isinstance(answer, Failure):
                raise ZooKeeperFailure(answer, f"transaction for {purpose}")
            else:
                return answer
        raise ZooKeeperFailure(Failure.UNKNOWN, f"transaction for {purpose}")

    async def create_recursive(self, path: str, data: bytes | None, purpose: str) -> Failure | None:
        """Create `path` and its missing parents. Return None if it was created, else the failure."""
        answer = await self.write(Create(path, data), purpose)
        if answer is Failure.NO_NODE and parent(path) != "/":
            above = await self.create_recursive(parent(path), None, purpose)
            if above not in (None, Failure.NODE_EXISTS):
                return above
            answer = await self.write(Create(path, data), purpose)
        return answer if isinstance(answer, Failure) else None

    # ------------------------------------------------------------------ fenced writes

    async def fenced(
        self,
        ops: Iterable[Write],
        purpose: str,
        fence: Fenced,
        *,
        together: int = 1,
        finished: Callable[[int, Sequence[OpResult | Failure]], None] = lambda first, results: None,
    ) -> list[OpResult | Failure]:
        """Send all of `ops`, fenced; return one result for each, in order. An operation that fails, fails alone.

        They share transactions, up to `MAX_IN_FLIGHT` of which are sent before the first is answered; so some may have
        been applied when the controller has moved. `ops` is read as transactions are answered: ZooKeeper works on the
        first while the next are encoded.

        Args:
            together: this many neighbouring operations stay in one transaction, such as a znode and its parent.
            finished: receives the results of each transaction, with the position of its first operation in `ops`.

        Raises:
            ControllerMoved: `/controller_epoch` is no longer at the fence's version.
        """
        window = asyncio.Semaphore(MAX_IN_FLIGHT)
        broken: list[Exception] = []
        results: list[Sequence[OpResult | Failure]] = []

        async def commit(number: int, first: int, batch: Sequence[Write]) -> None:
            try:
                results[number] = await self._commit(batch, purpose, fence)
            except (ControllerMoved, SessionLost, ZooKeeperFailure) as error:
                broken.append(error)
            window.release()
            finished(first, results[number])

        async with asyncio.TaskGroup() as group:
            for number, (first, batch) in enumerate(_batches(ops, together)):
                await window.acquire()
                if broken:
                    break
                results.append(())
                group.create_task(commit(number, first, batch))
        if broken:
            raise broken[0]
        return [result for batch in results for result in batch]

    async def delete_all(self, paths: Sequence[str], purpose: str, fence: Fenced) -> None:
        """Delete these znodes; one that does not exist counts as deleted."""
        results = await self.fenced([Delete(path) for path in paths], purpose, fence)
        for path, result in zip(paths, results, strict=True):
            tolerate(result, path, Failure.NO_NODE)

    async def read_children(self, path: str) -> dict[str, ZNodeData]:
        """Read the children of `path`, by name; arms the child watch."""
        listed = await self.children(path, watch=True)
        names = listed.names if listed else ()
        nodes = await self.get_many([f"{path}/{name}" for name in names])
        return {name: node for name, node in zip(names, nodes, strict=True) if not isinstance(node, Failure)}

    async def delete_children(self, path: str, purpose: str, fence: Fenced) -> None:
        """Delete all children of `path`; arms the child watch."""
        listed = await self.children(path, watch=True)
        if listed is not None:
            await self.delete_all([f"{path}/{name}" for name in listed.names], purpose, fence)

    async def _commit(self, ops: Sequence[Write], purpose: str, fence: Fenced) -> list[OpResult | Failure]:
        """Send one batch, without the conflicting operations again, until each has a result."""
        results: dict[int, OpResult | Failure] = {}
        pending = list(range(len(ops)))
        unsure = False
        lost_answers = conflict_rounds = 0
        while pending:
            batch = [ops[index] for index in pending]
            answer = await self._send(batch, purpose, fence)
            if isinstance(answer, MultiOk):
                results.update(zip(pending, answer.results, strict=True))
                break
            if answer is Failure.UNKNOWN:
                lost_answers += 1
                if lost_answers == MAX_LOST_ANSWERS:
                    raise ZooKeeperFailure(Failure.UNKNOWN, f"transaction for {purpose}")
                unsure = True
                await self._connected()
                continue
            if isinstance(answer, Failure):
                # TOO_LARGE: with the chroot the paths are longer than `_batches` has counted.
                if len(pending) == 1:
                    results[pending[0]] = answer
                else:
                    await self._commit_singly(ops, pending, results, purpose, fence)
                break
            found = _with_failed_operation(batch, await self._compare_with_zookeeper(batch, unsure), answer)
            results.update((index, result) for index, result in zip(pending, found, strict=True) if result is not None)
            pending = [index for index in pending if index not in results]
            unsure = False
            conflict_rounds += 1
            if conflict_rounds == MAX_CONFLICT_ROUNDS and len(pending) > 1:
                await self._commit_singly(ops, pending, results, purpose, fence)
                break
        return [results[index] for index in range(len(ops))]

    async def _commit_singly(
        self,
        ops: Sequence[Write],
        pending: Sequence[int],
        results: dict[int, OpResult | Failure],
        purpose: str,
        fence: Fenced,
    ) -> None:
        for index in pending:
            results[index] = (await self._commit([ops[index]], purpose, fence))[0]

    async def _send(self, ops: Sequence[Write], purpose: str, fence: Fenced) -> MultiOk | MultiFailed | Failure:
        """Send one transaction with the fence's check; positions and results correspond to `ops`."""
        if not self.fences.is_on(Fence.ZK_CONTROLLER_EPOCH):
            await self._verify(ops, purpose, fence)
            seq = self._record_write(purpose, ops, None)
            answer = await self.client.multi(ops)
            self._record_outcome(seq, answer)
            return answer
        seq = self._record_write(purpose, ops, fence)
        answer = await self.client.multi([Check(ControllerEpochZNode.path, fence.epoch_zk_version), *ops])
        self._record_outcome(seq, answer)
        if isinstance(answer, MultiOk):
            return MultiOk(answer.results[1:], answer.zxid)
        if isinstance(answer, MultiFailed):
            if answer.position > 0:
                return MultiFailed(answer.position - 1, answer.failure)
            if answer.failure is not Failure.BAD_VERSION:
                raise ZooKeeperFailure(answer.failure, f"check of {ControllerEpochZNode.path}")
            await self._verify(ops, purpose, fence)
            # The version only grows: if it equals the fence's now, the znode was deleted and created again meanwhile.
            raise ControllerMoved(
                f"{purpose} was refused: {ControllerEpochZNode.path} is not at {fence.epoch_zk_version}"
            )
        return answer

    async def _verify(self, ops: Sequence[Write], purpose: str, fence: Fenced) -> None:
        """Compare the fence with the current version of `/controller_epoch` and record a hit if they differ.

        Raises:
            ControllerMoved: they differ, and the fence is not switched off.
        """
        node = await self.get(ControllerEpochZNode.path)
        version = -1 if node is None else node.stat.version
        what = f"{purpose} of {ops[0].path}" + (f" and {len(ops) - 1} more" if len(ops) > 1 else "")
        if version != fence.epoch_zk_version and self.fences.record_hit(
            Fence.ZK_CONTROLLER_EPOCH, what=what, offered=fence.epoch_zk_version, known=version
        ):
            raise ControllerMoved(
                f"{what} was refused: {ControllerEpochZNode.path} is at version {version}, "
                f"this controller was elected at {fence.epoch_zk_version}"
            )

    async def _compare_with_zookeeper(self, ops: Sequence[Write], unsure: bool) -> list[OpResult | Failure | None]:
        """Compare each operation with what ZooKeeper holds now; return its result, or None if it may still succeed.

        Args:
            unsure: an answer was lost, so that an operation may have been applied.
        """
        nodes = await self.get_many([op.path for op in ops])
        known = list(zip(ops, nodes, strict=True))
        found = [_compare(op, node, unsure, self.client.session_id) for op, node in known]
        conflicts = [_compare(op, node, False, self.client.session_id) for op, node in known] if unsure else found
        is_adopted = found == conflicts or self.fences.rules.own_write_counts_as_success.holds_for(ops[0].path)
        return found if is_adopted else conflicts

    # ------------------------------------------------------------------ answers

    async def _answered(self, ask: Callable[[], Awaitable[_T | Failure]], what: str) -> _T | Failure:
        for _ in range(MAX_LOST_ANSWERS):
            answer = await ask()
            self._check_session((answer,))
            if answer is not Failure.UNKNOWN:
                return answer
            await self._connected()
        raise ZooKeeperFailure(Failure.UNKNOWN, what)

    async def _connected(self) -> None:
        if not await self.client.connected():
            raise SessionLost("the ZooKeeper session has expired")

    def _check_session(self, answers: Sequence[object]) -> None:
        self._events.saw_zxid(self.client.last_zxid)
        if Failure.SESSION_EXPIRED in answers:
            raise SessionLost("the ZooKeeper session has expired")

    def _record_write(self, purpose: str, ops: Sequence[Op], fence: Fenced | None) -> int:
        return self._events.append(
            ZkWrite(
                purpose=purpose,
                paths=tuple(op.path for op in ops[:_PATHS_SHOWN]),
                operations=len(ops),
                fenced=fence is not None,
                epoch_zk_version=-1 if fence is None else fence.epoch_zk_version,
            )
        )

    def _record_outcome(self, seq: int, answer: OpResult | MultiOk | MultiFailed | Failure) -> None:
        failure = answer.failure if isinstance(answer, MultiFailed) else answer
        self._events.saw_zxid(self.client.last_zxid)
        outcome = failure.value if isinstance(failure, Failure) else "Ok"
        self._events.append(ZkWriteDone(outcome=outcome, zxid=_zxid(answer)), cause=seq)
        if answer is Failure.SESSION_EXPIRED:
            raise SessionLost("the ZooKeeper session has expired")


class Part:
    """The base class of the parts of `KafkaZkClient`; each covers one family of znodes."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions


# ------------------------------------------------------------------ plain functions


def tolerate(result: OpResult | Failure | None, path: str, *failures: Failure) -> None:
    """Raise `ZooKeeperFailure` if `result` is a failure other than `failures`."""
    if isinstance(result, Failure) and result not in failures:
        raise ZooKeeperFailure(result, path)


def _present(answer: _T | Failure, what: str) -> _T | None:
    if answer is Failure.NO_NODE:
        return None
    if isinstance(answer, Failure):
        raise ZooKeeperFailure(answer, what)
    return answer


def _zxid(answer: OpResult | MultiOk | MultiFailed | Failure) -> int:
    match answer:
        case MultiOk(_, zxid):
            return zxid
        case Updated(stat):
            return stat.mzxid
        case _:
            return -1


def _batches(ops: Iterable[Write], together: int) -> Iterator[tuple[int, Sequence[Write]]]:
    """Split `ops`, in order, into batches that fit into one transaction, each with the position of its first."""
    room = MAX_REQUEST_BYTES - request_bytes(Check(ControllerEpochZNode.path, 0)) - 64
    first, size = 0, 0
    batch: list[Write] = []
    for op in ops:
        batch.append(op)
        size += request_bytes(op)
        if (size > room or len(batch) > MAX_OPS) and len(batch) > together and len(batch) % together == 0:
            fitting = len(batch) - together
            yield first, batch[:fitting]
            first, batch = first + fitting, batch[fitting:]
            size = sum(map(request_bytes, batch))
    if batch:
        yield first, batch


def _compare(op: Write, node: ZNodeData | Failure, unsure: bool, session_id: int) -> OpResult | Failure | None:
    match op:
        case Create():
            if isinstance(node, Failure):
                return None
            owner = session_id if op.ephemeral else 0
            ours = unsure and node.data == (op.data or b"") and node.stat.ephemeral_owner == owner
            return Created(op.path) if ours else Failure.NODE_EXISTS
        case SetData():
            if isinstance(node, Failure):
                return Failure.NO_NODE
            if op.version in (MATCH_ANY_VERSION, node.stat.version):
                return None
            ours = unsure and node.stat.version == op.version + 1 and node.data == op.data
            return Updated(node.stat) if ours else Failure.BAD_VERSION
        case Delete():
            if isinstance(node, Failure):
                return Deleted() if unsure else Failure.NO_NODE
            return None if op.version in (MATCH_ANY_VERSION, node.stat.version) else Failure.BAD_VERSION


def _with_failed_operation(
    ops: Sequence[Write], found: list[OpResult | Failure | None], answer: MultiFailed
) -> list[OpResult | Failure | None]:
    """Return `found` with a result for the operation that failed, and for all creates below the parent it missed."""
    failed = ops[answer.position]
    results = list(found)
    if results[answer.position] is None:
        results[answer.position] = answer.failure
        if isinstance(failed, Create) and answer.failure is Failure.NO_NODE:
            missing = parent(failed.path) + "/"
            for position, op in enumerate(ops):
                if isinstance(op, Create) and op.path.startswith(missing) and results[position] is None:
                    results[position] = Failure.NO_NODE
    return results
