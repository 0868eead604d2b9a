"""What we believe of ZooKeeper's watches. Each case runs against the simulator and the real server.

A watch that must not have fired is looked for after a read on the same connection: whatever was to come has come by
then.
"""

from __future__ import annotations

import asyncio

import pytest

from foundation.zk.client import (
    Create,
    Delete,
    Failure,
    MultiFailed,
    Node,
    SessionResumed,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
)
from tests.contracts.subject import Ground, Session, contract, data_of, stat_of


async def settled(session: Session) -> list[WatchFired]:
    """The watches heard so far, whatever was on the way included."""
    assert isinstance(await session.zk.exists("/"), Stat)
    return session.fired


# ------------------------------------------------------------------ what arms, what fires


@contract
async def test_a_read_node_tells_of_its_change(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(SetData("/a", b"x"))
    await session.hears_watch("/a", WatchKind.CHANGED)


@contract
async def test_a_read_node_tells_of_its_end(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.hears_watch("/a", WatchKind.DELETED)


@contract
async def test_a_read_node_tells_nothing_of_its_children(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(Create("/a/b"))
    assert await settled(session) == []


@pytest.mark.spec("ZC-3")
@contract
async def test_exists_watches_for_creation(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    assert await session.zk.exists("/a", watch=True) is Failure.NO_NODE
    await other.zk.write(Create("/a"))
    await session.hears_watch("/a", WatchKind.CREATED)


@contract
async def test_exists_watches_what_is_there_for_change_and_end(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.exists("/a", watch=True)
    await other.zk.write(SetData("/a", b"x"))
    await session.hears_watch("/a", WatchKind.CHANGED)
    await session.zk.exists("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.hears_watch("/a", WatchKind.DELETED)


@pytest.mark.spec("ZC-3")
@contract
async def test_get_of_an_absent_node_arms_nothing(ground: Ground) -> None:
    session = await ground.open()
    assert await session.zk.get("/a", watch=True) is Failure.NO_NODE
    assert await session.zk.children("/a", watch=True) is Failure.NO_NODE
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(Create("/a/b"))
    assert await settled(session) == []


@pytest.mark.spec("ZC-7")
@contract
async def test_children_tell_of_creation_and_of_deletion(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await other.zk.write(Create("/a/b"))
    await session.hears(WatchFired("/a", WatchKind.CHILDREN), times=1)
    await session.zk.children("/a", watch=True)
    await other.zk.write(Delete("/a/b"))
    await session.hears(WatchFired("/a", WatchKind.CHILDREN), times=2)


@pytest.mark.spec("ZC-7")
@contract
async def test_children_tell_nothing_of_data_and_of_grandchildren(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.multi([Create("/a"), Create("/a/b")])
    await session.zk.children("/a", watch=True)
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(SetData("/a/b", b"x"))
    await session.zk.write(Create("/a/b/c"))
    assert await settled(session) == []


@contract
async def test_a_node_watched_for_children_tells_of_its_end(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.hears_watch("/a", WatchKind.DELETED)


@contract
async def test_a_node_watched_in_two_ways_tells_of_its_end_once(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await session.zk.get("/a", watch=True)
    await session.zk.write(Delete("/a"))
    assert await settled(session) == [WatchFired("/a", WatchKind.DELETED)]


@contract
async def test_a_node_and_its_parent_each_tell_in_their_own_way(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await session.zk.exists("/a/b", watch=True)
    await session.zk.write(Create("/a/b"))
    assert sorted(await settled(session), key=lambda fired: fired.path) == [
        WatchFired("/a", WatchKind.CHILDREN),
        WatchFired("/a/b", WatchKind.CREATED),
    ]


@contract
async def test_reads_without_watch_neither_arm_nor_disarm(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.multi([Create("/a"), Create("/b")])
    await session.zk.get("/a", watch=True)
    for path in ("/a", "/b"):
        await session.zk.get(path)
        await session.zk.exists(path)
        await session.zk.children(path)
        await session.zk.get_many([path])
    await session.zk.multi([SetData("/a", b"x"), SetData("/b", b"x")])
    await session.zk.multi([Create("/a/c"), Create("/b/c")])
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_writes_arm_nothing(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(SetData("/a", b"y"))
    await session.zk.write(Delete("/a"))
    assert await settled(session) == []


@contract
async def test_a_bulk_read_may_watch_what_exists(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.multi([Create("/a"), Create("/b"), Create("/c")])
    found = await session.zk.get_many(["/a", "/none", "/b", "/c"], watch=True)
    assert [isinstance(node, Node) for node in found] == [True, False, True, True]
    assert await settled(session) == []
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(Delete("/b"))
    await session.zk.write(Create("/none"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED), WatchFired("/b", WatchKind.DELETED)]


@contract
async def test_a_bulk_read_watches_by_the_thousand(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    paths = [f"/a/{number}" for number in range(2_500)]
    for start in range(0, 2_500, 500):
        await session.zk.multi([Create(path) for path in paths[start : start + 500]])
    await session.zk.get_many(paths, watch=True)
    await session.zk.multi([SetData(path, b"x") for path in paths[::250]])
    assert {fired.path for fired in await settled(session)} == set(paths[::250])


@contract
async def test_a_bulk_read_misses_no_change_made_at_the_same_time(ground: Ground) -> None:
    """Whatever the reader did not see in its answer, it hears of."""
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a", b"0"))
    for round_ in range(1, 11):
        data = b"%d" % round_
        (read,), _ = await asyncio.gather(
            session.zk.get_many(["/a"], watch=True), other.zk.write(SetData("/a", data)), return_exceptions=False
        )
        assert isinstance(read, Node)
        if read.data != data:
            await session.hears(WatchFired("/a", WatchKind.CHANGED))
        session.heard.clear()
        await session.zk.write(SetData("/a", data))
        session.heard.clear()


# ------------------------------------------------------------------ once


@pytest.mark.spec("Z3", "ZC-7")
@contract
async def test_a_watch_fires_once(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(SetData("/a", b"1"))
    await session.zk.write(SetData("/a", b"2"))
    await session.zk.write(Delete("/a"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_a_creation_watch_does_not_become_a_data_watch(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.exists("/a", watch=True)
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"1"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CREATED)]


@contract
async def test_arming_twice_is_arming_once(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.exists("/a", watch=True)
    await session.zk.get_many(["/a", "/a"], watch=True)
    await session.zk.write(SetData("/a", b"1"))
    await session.zk.write(SetData("/a", b"2"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_each_session_has_its_own_watches(ground: Ground) -> None:
    first, second, third = await ground.open(), await ground.open(), await ground.open()
    await first.zk.write(Create("/a"))
    await first.zk.get("/a", watch=True)
    await second.zk.get("/a", watch=True)
    await third.zk.write(SetData("/a", b"1"))
    await first.hears_watch("/a", WatchKind.CHANGED)
    await second.hears_watch("/a", WatchKind.CHANGED)
    assert await settled(third) == []


# ------------------------------------------------------------------ order


@pytest.mark.spec("Z3", "ZC-7")
@contract
async def test_a_watch_is_heard_before_an_answer_that_reflects_the_change(ground: Ground) -> None:
    reader, writer = await ground.open(), await ground.open()
    await writer.zk.write(Create("/a", b"old"))
    for round_ in range(10):
        await reader.zk.get("/a", watch=True)
        write = asyncio.ensure_future(writer.zk.write(SetData("/a", b"new %d" % round_)))
        while await data_of(reader.zk, "/a") != b"new %d" % round_:
            pass
        assert reader.fired == [WatchFired("/a", WatchKind.CHANGED)]
        reader.heard.clear()
        await write


@contract
async def test_a_watch_is_heard_before_the_answer_to_the_write_that_fired_it(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(SetData("/a", b"1"))
    assert session.fired == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_watches_are_heard_in_the_order_of_the_changes(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    paths = [f"/n{number}" for number in (3, 1, 2, 0)]
    for path in paths:
        await session.zk.exists(path, watch=True)
    for path in paths:
        await other.zk.write(Create(path))
    await session.hears_watch(paths[-1], WatchKind.CREATED)
    assert [fired.path for fired in session.fired] == paths


# ------------------------------------------------------------------ transactions


@contract
async def test_a_transaction_fires_the_watches_of_all_it_touches(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.multi([Create("/a"), Create("/b"), Create("/c")])
    await session.zk.get("/a", watch=True)
    await session.zk.get("/b", watch=True)
    await session.zk.children("/c", watch=True)
    await other.zk.multi([SetData("/a", b""), Delete("/b"), Create("/c/d")])
    await session.hears_watch("/c", WatchKind.CHILDREN)
    assert session.fired == [
        WatchFired("/a", WatchKind.CHANGED),
        WatchFired("/b", WatchKind.DELETED),
        WatchFired("/c", WatchKind.CHILDREN),
    ]


@contract
async def test_what_was_not_applied_fires_nothing(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.children("/a", watch=True)
    await session.zk.write(SetData("/a", b"", 7))
    outcome = await session.zk.multi([SetData("/a", b"x"), Create("/a/b"), Delete("/none")])
    assert outcome == MultiFailed(2, Failure.NO_NODE)
    assert await settled(session) == []


# ------------------------------------------------------------------ cuts


@contract
async def test_watches_are_armed_again_after_a_cut(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.multi([Create("/data"), Create("/folder")])
    await session.zk.get("/data", watch=True)
    await session.zk.children("/folder", watch=True)
    await session.zk.exists("/absent", watch=True)
    await ground.cut(session)
    await ground.heal(session)
    assert await session.zk.connected()
    assert await settled(session) == []
    await other.zk.multi([SetData("/data", b"x"), Create("/folder/a"), Create("/absent")])
    await session.hears_watch("/data", WatchKind.CHANGED)
    await session.hears_watch("/folder", WatchKind.CHILDREN)
    await session.hears_watch("/absent", WatchKind.CREATED)


@contract
async def test_what_changed_during_a_cut_is_told_at_once(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.multi([Create("/changed"), Create("/deleted"), Create("/folder"), Create("/gone")])
    for path in ("/changed", "/deleted"):
        await session.zk.get(path, watch=True)
    for path in ("/folder", "/gone"):
        await session.zk.children(path, watch=True)
    await session.zk.exists("/created", watch=True)
    await ground.cut(session)
    await other.zk.multi(
        [SetData("/changed", b"x"), Delete("/deleted"), Create("/folder/a"), Delete("/gone"), Create("/created")]
    )
    await ground.heal(session)
    await session.hears(SessionResumed)
    assert sorted(await settled(session), key=lambda fired: fired.path) == [
        WatchFired("/changed", WatchKind.CHANGED),
        WatchFired("/created", WatchKind.CREATED),
        WatchFired("/deleted", WatchKind.DELETED),
        WatchFired("/folder", WatchKind.CHILDREN),
        WatchFired("/gone", WatchKind.DELETED),
    ]


@contract
async def test_a_node_replaced_during_a_cut_has_changed(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ground.cut(session)
    await other.zk.write(Delete("/a"))
    await other.zk.write(Create("/a"))
    await ground.heal(session)
    await session.hears(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_a_node_watched_in_two_ways_that_ended_during_a_cut_tells_once(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.children("/a", watch=True)
    await ground.cut(session)
    await other.zk.write(Delete("/a"))
    await ground.heal(session)
    await session.hears(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.DELETED)]


@contract
async def test_what_was_told_after_a_cut_is_used_up(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ground.cut(session)
    await other.zk.write(SetData("/a", b"1"))
    await ground.heal(session)
    await session.hears_watch("/a", WatchKind.CHANGED)
    await other.zk.write(SetData("/a", b"2"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_what_fired_before_a_cut_is_not_armed_again(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(SetData("/a", b"1"))
    await session.hears_watch("/a", WatchKind.CHANGED)
    await ground.cut(session)
    await other.zk.write(SetData("/a", b"2"))
    await ground.heal(session)
    await session.hears(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_after_a_cut_a_change_is_told_before_an_answer_reflects_it(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a", b"old"))
    await session.zk.get("/a", watch=True)
    await ground.cut(session)
    await other.zk.write(SetData("/a", b"new"))
    await ground.heal(session)
    assert await session.zk.connected()
    assert await data_of(session.zk, "/a") == b"new"
    assert session.fired == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_a_watch_of_a_bulk_read_survives_a_cut(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.multi([Create("/a"), Create("/b")])
    await session.zk.get_many(["/a", "/b"], watch=True)
    await ground.cut(session)
    await other.zk.write(SetData("/a", b"x"))
    await ground.heal(session)
    await session.hears_watch("/a", WatchKind.CHANGED)
    await other.zk.write(SetData("/b", b"x"))
    await session.hears_watch("/b", WatchKind.CHANGED)


@contract
async def test_thousands_of_watches_survive_two_cuts(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    paths = [f"/a/{'x' * 100}-{number}" for number in range(3_000)]
    for start in range(0, 3_000, 500):
        await other.zk.multi([Create(path) for path in paths[start : start + 500]])
    await session.zk.get_many(paths, watch=True)
    for cuts in (1, 2):
        await ground.cut(session)
        await other.zk.write(SetData(paths[cuts], b"x"))
        await ground.heal(session)
        await session.hears(SessionResumed, times=cuts)
    await other.zk.write(SetData(paths[-1], b"x"))
    await session.hears_watch(paths[-1], WatchKind.CHANGED)
    assert [fired.path for fired in session.fired] == [paths[1], paths[2], paths[-1]]
    assert (await stat_of(other.zk, paths[0])).version == 0


# ------------------------------------------------------------------ chroot


@contract
async def test_watches_below_a_chroot_tell_paths_below_it(ground: Ground) -> None:
    inside, outside = await ground.open(chroot="/app"), await ground.open()
    await inside.zk.write(Create("/a"))
    await inside.zk.get("/a", watch=True)
    await inside.zk.children("/", watch=True)
    await outside.zk.write(SetData("/app/a", b"x"))
    await outside.zk.write(Create("/app/b"))
    await inside.hears_watch("/a", WatchKind.CHANGED)
    await inside.hears_watch("/", WatchKind.CHILDREN)


@contract
async def test_watches_below_a_chroot_survive_a_cut(ground: Ground) -> None:
    inside, outside = await ground.open(chroot="/app"), await ground.open()
    await inside.zk.write(Create("/a"))
    await inside.zk.get("/a", watch=True)
    await inside.zk.children("/", watch=True)
    await ground.cut(inside)
    await outside.zk.write(SetData("/app/a", b"x"))
    await ground.heal(inside)
    await inside.hears_watch("/a", WatchKind.CHANGED)
    await outside.zk.write(Create("/app/b"))
    await inside.hears_watch("/", WatchKind.CHILDREN)
