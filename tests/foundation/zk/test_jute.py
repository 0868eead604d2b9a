"""The bytes of ZooKeeper requests and responses, with kazoo's own classes as the oracle if it has them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import OPEN_ACL_UNSAFE

from understudy.foundation.zk import jute
from understudy.foundation.zk.client import (
    Check,
    Checked,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    MultiFailed,
    Op,
    SetData,
    Stat,
    Updated,
    ZNodeData,
)

OPS: list[tuple[Op, object]] = [
    (Create("/a", b"x"), kazoo.Create("/a", b"x", OPEN_ACL_UNSAFE, 0)),
    (Create("/ü", None, ephemeral=True), kazoo.Create("/ü", None, OPEN_ACL_UNSAFE, 1)),
    (Create("/a_", b"", sequential=True), kazoo.Create("/a_", b"", OPEN_ACL_UNSAFE, 2)),
    (Create("/a_", b"", ephemeral=True, sequential=True), kazoo.Create("/a_", b"", OPEN_ACL_UNSAFE, 3)),
    (SetData("/a", b"x", 7), kazoo.SetData("/a", b"x", 7)),
    (Delete("/a"), kazoo.Delete("/a", -1)),
    (Check("/a", 3), kazoo.CheckVersion("/a", 3)),
]
STAT = Stat(
    czxid=3,
    mzxid=4,
    version=1,
    cversion=2,
    ephemeral_owner=0x1000,
    data_length=5,
    num_children=6,
    ctime_ms=11,
    mtime_ms=12,
    pzxid=9,
    acl_version=7,
)
STAT_BYTES = struct.pack("!qqqqiiiqiiq", 3, 4, 11, 12, 1, 2, 7, 0x1000, 5, 6, 9)
END = struct.pack("!iBi", -1, 1, -1)


def header(kind: int) -> bytes:
    return struct.pack("!iBi", kind, 0, 0)


def text(value: bytes) -> bytes:
    return struct.pack("!i", len(value)) + value


@pytest.mark.parametrize(("op", "oracle"), OPS)
def test_an_operation_is_written_as_kazoo_writes_it(op: Op, oracle: Any) -> None:
    assert jute.op_request(op, op.path) == oracle.serialize()
    assert jute.op_code(op) == oracle.type


@pytest.mark.spec("ZN-11")
def test_a_transaction_is_written_as_kazoo_writes_it() -> None:
    oracle = kazoo.Transaction([theirs for _, theirs in OPS])
    assert jute.multi_request([op for op, _ in OPS], lambda path: path) == oracle.serialize()
    assert oracle.type == jute.MULTI


def test_an_operation_is_written_with_the_path_given() -> None:
    written = jute.multi_request([Delete("/a")], lambda path: "/app" + path)
    assert written == kazoo.Transaction([kazoo.Delete("/app/a", -1)]).serialize()


@pytest.mark.parametrize("watch", [True, False])
def test_reads_are_written_as_kazoo_writes_them(watch: bool) -> None:
    assert jute.read_request("/ü", watch) == kazoo.GetData("/ü", watch).serialize()
    assert (kazoo.GetData.type, kazoo.Exists.type, kazoo.GetChildren2.type) == (
        jute.GET_DATA,
        jute.EXISTS,
        jute.GET_CHILDREN_2,
    )


def test_a_bulk_read_is_a_transaction_of_reads() -> None:
    written = jute.multi_read_request(["/a", "/ü"])
    assert (
        written
        == header(4)[:5]
        + struct.pack("!i", -1)
        + kazoo.GetData("/a", False).serialize()
        + header(4)[:5]
        + struct.pack("!i", -1)
        + kazoo.GetData("/ü", False).serialize()
        + END
    )


def test_watches_are_set_again_with_the_last_zxid() -> None:
    written = jute.set_watches_request(9, ["/d"], [], ["/c", "/e"])
    one = struct.pack("!i", 1) + text(b"/d")
    assert written == struct.pack("!q", 9) + one + struct.pack("!i", 0) + struct.pack("!i", 2) + text(b"/c") + text(
        b"/e"
    )


def test_responses_with_stats_data_and_children_are_read() -> None:
    assert jute.read_stat(b"??" + STAT_BYTES, 2) == STAT
    assert jute.read_node(text(b"data") + STAT_BYTES, 0) == ZNodeData(b"data", STAT)
    assert jute.read_node(text(b"") + STAT_BYTES, 0) == ZNodeData(b"", STAT)
    assert jute.read_node(struct.pack("!i", -1) + STAT_BYTES, 0) == ZNodeData(b"", STAT, is_null=True)
    listed = struct.pack("!i", 2) + text(b"b") + text("ä".encode()) + STAT_BYTES
    assert jute.read_children(listed, 0) == Children(("b", "ä"), STAT)


def test_the_response_to_a_bulk_read_holds_nodes_and_failures() -> None:
    answer = (
        header(4)
        + text(b"x")
        + STAT_BYTES
        + header(-1)
        + struct.pack("!i", -101)
        + header(4)
        + struct.pack("!i", -1)
        + STAT_BYTES
        + END
    )
    assert jute.read_many(answer, 0) == [ZNodeData(b"x", STAT), Failure.NO_NODE, ZNodeData(b"", STAT, is_null=True)]
    assert jute.read_many(END, 0) == []


def test_the_response_to_a_transaction_holds_a_result_per_operation() -> None:
    answer = header(13) + header(1) + text(b"/a_0000000001") + header(5) + STAT_BYTES + header(2) + END
    assert jute.read_multi(answer, 0) == (Checked(), Created("/a_0000000001"), Updated(STAT), Deleted())


@pytest.mark.spec("ZC-7")
def test_the_response_to_a_failed_transaction_names_the_failed_operation() -> None:
    codes = (0, 0, -110, -2)
    answer = b"".join(header(-1) + struct.pack("!i", code) for code in codes) + END
    assert jute.read_multi(answer, 0) == MultiFailed(2, Failure.NODE_EXISTS)
