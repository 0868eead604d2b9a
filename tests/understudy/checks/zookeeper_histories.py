"""Histories of znodes that checks Z1, Z2 and Z6 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, cluster, rejects
from understudy.checks.history import OpKind, ZnodeOp


@accepts("Z1")
@accepts("Z2")
@accepts("Z6")
def sessions_and_znodes_of_two_elections() -> History:
    history = History()
    for parent in ("/brokers", "/brokers/ids", "/brokers/topics"):
        history.commit(0x11, history.create(parent))
    history.register(1, 2)
    history.elect(1)
    history.commit(0x11, history.fence(), history.create("/brokers/topics/t"))
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.elect(2)
    return history


@rejects("Z1", "zxid 3 follows 7")
def a_zxid_decreases() -> History:
    history = cluster()
    history.transactions = [*history.transactions[:7], history.transactions[2]]
    return history


@rejects("Z2", "session 0x11 ended and left /brokers/ids/1")
def an_ephemeral_outlives_its_session() -> History:
    history = cluster()
    history.end(0x11, "/controller")
    return history


@rejects("Z2", "session 0x11 writes after its end")
def an_ended_session_writes() -> History:
    history = cluster()
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.state(2, 1, [2])
    return history


@rejects("Z6", "the znode exists already")
def a_znode_is_created_twice() -> History:
    history = History()
    history.commit(1, history.create("/a"))
    history.commit(1, history.create("/a"))
    return history


@rejects("Z6", "the znode does not exist")
def a_znode_that_does_not_exist_is_deleted() -> History:
    history = History()
    history.commit(1, history.delete("/a"))
    return history


@rejects("Z6", "version 2 after 0")
def a_version_is_skipped() -> History:
    history = History()
    history.commit(1, history.create("/a"))
    history.commit(1, ZnodeOp(OpKind.SET, "/a", b"", 2))
    return history


@rejects("Z6", "expected version 4 passed at 0")
def a_check_of_another_version_passes() -> History:
    history = History()
    history.commit(1, history.create("/a"))
    history.commit(1, ZnodeOp(OpKind.CHECK, "/a", None, 4))
    return history
