"""Hand-made histories: a few lines each, in the words of the domain."""

from __future__ import annotations

import json
from collections.abc import Callable

from foundation.eventlog.records import Envelope, Leadership, Payload, type_name
from understudy.checkers.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.checkers.verdict import Judge

EPOCH_PATH = "/controller_epoch"


class History:
    """Transactions and records of one run, appended in order. Session `0xN1` is broker N's unless a story says
    otherwise."""

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
        """Broker wins the race; the new controller epoch."""
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

    def topic(self, name: str, partitions: dict[str, list[int]]) -> None:
        self.commit(0xFF, self.create(f"/brokers/topics/{name}", {"partitions": partitions, "version": 3}))

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
        """Broker `by` writes the state of `t-<partition>`, creating it where there is none."""
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
                Envelope(
                    version=1,
                    run="hand-made",
                    node=name,
                    incarnation=incarnation,
                    seq=len(records) + 1,
                    mono_ms=at_ms,
                    wall_ms=at_ms,
                    type=type_name(payload),
                    cause=None,
                    zxid=self.zxid if zxid is None else zxid,
                    controller_epoch=max(self.epoch_version, 0),
                    data=payload,
                )
            )

    # -- the verdict

    def witness(self, check: str) -> str | None:
        """What the check saw, or None where it accepts."""
        return {violation.check: violation.witness for violation in Judge().run(self.records, self.transactions)}.get(
            check
        )

    def violated(self) -> list[str]:
        return [violation.check for violation in Judge().run(self.records, self.transactions)]


def cluster(*, topic: bool = True) -> History:
    """Brokers 1, 2 and 3, of which 1 is controller at epoch 1; topic `t` with partition 0 on all three."""
    history = History()
    history.register(1, 2, 3)
    history.elect(1)
    if topic:
        history.topic("t", {"0": [1, 2, 3]})
        history.state(1, 0, [1, 2, 3])
    return history


def leadership(
    leader: int, leader_epoch: int, isr: tuple[int, ...] = (1, 2, 3), version: int = 0, controller_epoch: int = 1
) -> Leadership:
    return Leadership("t", 0, leader, leader_epoch, isr, version, controller_epoch)


Story = Callable[[], History]

ACCEPTED: list[tuple[str, Story]] = []
REJECTED: list[tuple[str, str, Story]] = []


def accepts(check: str) -> Callable[[Story], Story]:
    """A history that `check` must find nothing wrong with."""

    def register(story: Story) -> Story:
        ACCEPTED.append((check, story))
        return story

    return register


def rejects(check: str, because: str) -> Callable[[Story], Story]:
    """A history that `check` must reject with a witness that says `because`."""

    def register(story: Story) -> Story:
        REJECTED.append((check, because, story))
        return story

    return register


def _bytes(data: object) -> bytes | None:
    return None if data is None else json.dumps(data, separators=(",", ":")).encode()
