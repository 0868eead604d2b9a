"""`History` writes short histories of a run by hand: transactions of ZooKeeper, and records of event logs."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import structs

from understudy.checks.check import Violation
from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.checks.invariant_checker import ALL_CHECKS, InvariantChecker
from understudy.foundation.eventlog.records import Envelope, Leadership, Payload, type_name

EPOCH_PATH = "/controller_epoch"


def envelope(payload: Payload, *, node: str = "broker-1") -> Envelope:
    """The first record of a node, at time 0."""
    return Envelope(
        version=1,
        run="hand-made",
        node=node,
        incarnation=1,
        seq=1,
        mono_ms=0,
        wall_ms=0,
        type=type_name(payload),
        cause=None,
        zxid=0,
        controller_epoch=1,
        data=payload,
    )


class History:
    """The transactions and records of one run, appended in order.

    The session of broker N is `0xN1` if no other is given; `0xFF` is an operator's session.
    """

    def __init__(self) -> None:
        self.transactions: list[ZnodeTransaction] = []
        self.records: dict[str, list[Envelope]] = {}
        self.zxid = 0
        self.epoch_version = -1
        self._versions: dict[str, int] = {}

    # -- transactions

    def commit(self, session: int, *ops: ZnodeOp, closed: bool = False) -> int:
        self.zxid += 1
        self.transactions.append(ZnodeTransaction(self.zxid, 1000.0 * self.zxid, session, ops, closed))
        return self.zxid

    def create(self, path: str, data: object = None, owner: int = 0) -> ZnodeOp:
        self._versions[path] = 0
        return ZnodeOp(OpKind.CREATE, path, _bytes(data), 0, owner)

    def set(self, path: str, data: object) -> ZnodeOp:
        self._versions[path] = self._versions.get(path, -1) + 1
        return ZnodeOp(OpKind.SET, path, _bytes(data), self._versions[path])

    def delete(self, path: str) -> ZnodeOp:
        self._versions.pop(path, None)
        return ZnodeOp(OpKind.DELETE, path)

    def fence(self, version: int | None = None) -> ZnodeOp:
        return ZnodeOp(OpKind.CHECK, EPOCH_PATH, None, self.epoch_version if version is None else version)

    def register(self, *brokers: int, version: int = 5) -> None:
        for broker in brokers:
            session, path = broker * 16 + 1, f"/brokers/ids/{broker}"
            self.commit(session, self.create(path, owner=session), self.set(path, {"version": version}))

    def elect(self, broker: int, session: int | None = None) -> int:
        """Elect `broker` as controller, and return the new controller epoch."""
        owner = broker * 16 + 1 if session is None else session
        if self.epoch_version < 0:
            self.commit(owner, self.create(EPOCH_PATH, 0))
            self.epoch_version = 0
        self.epoch_version += 1
        self.commit(
            owner,
            self.create("/controller", {"version": 2, "brokerid": broker}, owner=owner),
            self.set(EPOCH_PATH, self.epoch_version),
        )
        return self.epoch_version

    def topic(self, name: str, partitions: dict[str, list[int]], topic_id: str = "") -> None:
        data = {"partitions": partitions, "version": 3} | ({"topic_id": topic_id} if topic_id else {})
        self.commit(0xFF, self.create(f"/brokers/topics/{name}", data))

    def state(
        self,
        leader: int,
        leader_epoch: int,
        isr: list[int],
        *,
        by: int = 1,
        controller_epoch: int | None = None,
        fence: bool = True,
        partition: int = 0,
        recovery: int = 0,
    ) -> int:
        """Set the state of `t-<partition>` in the session of broker `by`, or create it if it does not exist."""
        path = f"/brokers/topics/t/partitions/{partition}/state"
        epoch = self.epoch_version if controller_epoch is None else controller_epoch
        data: dict[str, object] = {"controller_epoch": epoch, "leader": leader, "version": 1}
        if recovery:
            data["leader_recovery_state"] = recovery
        data |= {"leader_epoch": leader_epoch, "isr": isr}
        write = self.set(path, data) if path in self._versions else self.create(path, data)
        return self.commit(by * 16 + 1, *((self.fence(), write) if fence else (write,)))

    def end(self, session: int, *paths: str) -> None:
        self.commit(session, *(self.delete(path) for path in paths), closed=True)

    # -- records

    def log(
        self, node: int, *payloads: Payload, incarnation: int = 1, zxid: int | None = None, at_ms: float = 0.0
    ) -> None:
        name = f"broker-{node}"
        records = self.records.setdefault(name, [])
        for payload in payloads:
            records.append(
                structs.replace(
                    envelope(payload, node=name),
                    incarnation=incarnation,
                    seq=len(records) + 1,
                    mono_ms=at_ms,
                    wall_ms=at_ms,
                    zxid=self.zxid if zxid is None else zxid,
                    controller_epoch=max(self.epoch_version, 0),
                )
            )

    # -- violations

    def witness(self, check: str) -> str | None:
        """Return the witness of the violation of `check`, or None if the check accepts the history."""
        return {violation.check: violation.witness for violation in self._violations()}.get(check)

    def violated(self) -> list[str]:
        """Return the ids of the checks that reject the history."""
        return [violation.check for violation in self._violations()]

    def _violations(self) -> list[Violation]:
        return InvariantChecker(ALL_CHECKS).run(self.records, self.transactions)


def cluster(*, topic: bool = True, topic_id: str = "") -> History:
    """Return a history with brokers 1, 2 and 3, controller 1 at epoch 1, and partition 0 of topic `t` on all three."""
    history = History()
    history.register(1, 2, 3)
    history.elect(1)
    if topic:
        history.topic("t", {"0": [1, 2, 3]}, topic_id)
        history.state(1, 0, [1, 2, 3])
    return history


def leadership(
    leader: int, leader_epoch: int, isr: tuple[int, ...] = (1, 2, 3), version: int = 0, controller_epoch: int = 1
) -> Leadership:
    return Leadership("t", 0, leader, leader_epoch, isr, version, controller_epoch)


WriteHistory = Callable[[], History]

ACCEPTED: list[tuple[str, WriteHistory]] = []
"""(id of a check, function that writes a history it must accept)"""
REJECTED: list[tuple[str, str, WriteHistory]] = []
"""(id of a check, part of the expected witness, function that writes a history it must reject)"""


def accepts(check: str) -> Callable[[WriteHistory], WriteHistory]:
    """Decorate a function that writes a history which `check` must accept."""

    def register(write: WriteHistory) -> WriteHistory:
        ACCEPTED.append((check, write))
        return write

    return register


def rejects(check: str, witness: str) -> Callable[[WriteHistory], WriteHistory]:
    """Decorate a function that writes a history which `check` must reject with a witness that contains `witness`."""

    def register(write: WriteHistory) -> WriteHistory:
        REJECTED.append((check, witness, write))
        return write

    return register


def _bytes(data: object) -> bytes | None:
    return None if data is None else json.dumps(data, separators=(",", ":")).encode()
