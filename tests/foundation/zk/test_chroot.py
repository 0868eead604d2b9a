"""Creation of the chroot, on znodes whose permissions a test chooses."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from understudy.foundation.zk.chroot import create_chroot_if_necessary
from understudy.foundation.zk.client import Create, Created, Failure, Stat, ZooKeeperClient, ZooKeeperUnreachable


class GuardedZnodes:
    """Znodes with permissions, on a session that can lose answers: the part of `ZooKeeperClient` that is needed."""

    session_id = 0x1F

    def __init__(self, *paths: str, may_not_create_in: str = "", may_not_read: str = "") -> None:
        self.paths = {"/", *paths}
        self.creates_sent: list[str] = []
        self.lost_answers = 0
        """The number of next requests that are applied and whose answers are lost."""
        self.created_by_others: str = ""
        """A znode that another client creates just before this client's first create request arrives."""
        self.expired = False
        self._may_not_create_in = may_not_create_in
        self._may_not_read = may_not_read

    async def connected(self) -> bool:
        return not self.expired

    async def exists(self, path: str) -> Stat | Failure:
        if self._answer_is_lost():
            return Failure.UNKNOWN
        if self.expired:
            return Failure.SESSION_EXPIRED
        if path not in self.paths:
            return Failure.NO_NODE
        return Failure.NO_AUTH if path == self._may_not_read else Stat(czxid=1, mzxid=1, version=0)

    async def write(self, op: Create) -> Created | Failure:
        self.creates_sent.append(op.path)
        answer = self._create(op.path)
        return Failure.UNKNOWN if self._answer_is_lost() else answer

    def _create(self, path: str) -> Created | Failure:
        if self.created_by_others:
            self.paths.add(self.created_by_others)
        parent = path.rpartition("/")[0] or "/"
        if parent not in self.paths:
            return Failure.NO_NODE
        if parent == self._may_not_create_in:
            return Failure.NO_AUTH
        if path in self.paths:
            return Failure.NODE_EXISTS
        self.paths.add(path)
        return Created(path)

    def _answer_is_lost(self) -> bool:
        self.lost_answers -= 1
        return self.lost_answers >= 0

    def create_chroot(self, chroot: str) -> None:
        asyncio.run(create_chroot_if_necessary(cast(ZooKeeperClient, self), chroot))


@pytest.mark.spec("ZN-1")
def test_the_missing_folders_are_created_from_the_top() -> None:
    znodes = GuardedZnodes("/apps")
    znodes.create_chroot("/apps/kafka/one")
    assert znodes.creates_sent == ["/apps/kafka", "/apps/kafka/one"]
    assert znodes.paths == {"/", "/apps", "/apps/kafka", "/apps/kafka/one"}


@pytest.mark.parametrize("chroot", ["", "/apps", "/apps/kafka"])
def test_nothing_is_created_where_the_chroot_exists(chroot: str) -> None:
    znodes = GuardedZnodes("/apps", "/apps/kafka")
    znodes.create_chroot(chroot)
    assert znodes.creates_sent == []


def test_a_folder_below_a_parent_without_create_permission_is_used_if_it_exists() -> None:
    znodes = GuardedZnodes("/apps", may_not_create_in="/")
    znodes.create_chroot("/apps/kafka")
    assert znodes.creates_sent == ["/apps/kafka"]


def test_a_folder_that_may_not_be_read_exists() -> None:
    znodes = GuardedZnodes("/apps", may_not_read="/apps", may_not_create_in="/")
    znodes.create_chroot("/apps/kafka")
    assert znodes.creates_sent == ["/apps/kafka"]


def test_a_missing_folder_below_a_parent_without_create_permission_is_an_error() -> None:
    znodes = GuardedZnodes("/apps", may_not_create_in="/apps")
    with pytest.raises(ZooKeeperUnreachable) as raised:
        znodes.create_chroot("/apps/kafka/one")
    assert str(raised.value) == (
        "the chroot /apps/kafka/one of zookeeper.connect is missing and /apps/kafka cannot be created: NoAuth; this "
        "client lacks the CREATE permission on /apps; create /apps/kafka/one by hand or grant CREATE there"
    )


def test_the_root_is_named_where_the_first_folder_cannot_be_created() -> None:
    with pytest.raises(ZooKeeperUnreachable, match=r"/kafka cannot be created: NoAuth; .* permission on /; create"):
        GuardedZnodes(may_not_create_in="/").create_chroot("/kafka")


@pytest.mark.parametrize("may_not_create_in", ["", "/"])
def test_a_folder_that_another_client_creates_meanwhile_is_used(may_not_create_in: str) -> None:
    znodes = GuardedZnodes(may_not_create_in=may_not_create_in)
    znodes.created_by_others = "/kafka"
    znodes.create_chroot("/kafka")
    assert znodes.creates_sent == ["/kafka"]


@pytest.mark.parametrize("lost_answers", range(1, 6))
def test_a_request_whose_answer_is_lost_is_sent_again(lost_answers: int) -> None:
    znodes = GuardedZnodes()
    znodes.lost_answers = lost_answers
    znodes.create_chroot("/apps/kafka")
    assert znodes.paths == {"/", "/apps", "/apps/kafka"}


def test_an_expired_session_is_an_error() -> None:
    znodes = GuardedZnodes()
    znodes.expired = True
    with pytest.raises(ZooKeeperUnreachable, match="session 0x1f expired while it was being opened"):
        znodes.create_chroot("/kafka")
