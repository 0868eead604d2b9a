"""ZooKeeper's watches. Each case runs against both subjects.

That a watch has not fired is asserted after a read on the same connection, before whose answer it would have been
notified.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts.subject import Ensemble, Session, contract, data_of, stat_of
from understudy.foundation.zk.client import (
    Create,
    Delete,
    Failure,
    MultiFailed,
    SessionResumed,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
)


async def settled(session: Session) -> list[WatchFired]:
    """The watch notifications received so far, including those on the way."""
    assert isinstance(await session.zk.exists("/"), Stat)
    return session.fired


# ------------------------------------------------------------------ what sets a watch, what fires it


@contract
async def test_a_data_watch_fires_on_a_change(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(SetData("/a", b"x"))
    await session.wait_for_watch("/a", WatchKind.CHANGED)


@contract
async def test_a_data_watch_fires_on_deletion(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.wait_for_watch("/a", WatchKind.DELETED)


@contract
async def test_a_data_watch_does_not_fire_for_children(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(Create("/a/b"))
    assert await settled(session) == []


@pytest.mark.spec("ZC-3")
@contract
async def test_an_exists_watch_fires_on_creation(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    assert await session.zk.exists("/a", watch=True) is Failure.NO_NODE
    await other.zk.write(Create("/a"))
    await session.wait_for_watch("/a", WatchKind.CREATED)


@contract
async def test_an_exists_watch_on_a_node_fires_on_change_and_deletion(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.exists("/a", watch=True)
    await other.zk.write(SetData("/a", b"x"))
    await session.wait_for_watch("/a", WatchKind.CHANGED)
    await session.zk.exists("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.wait_for_watch("/a", WatchKind.DELETED)


@pytest.mark.spec("ZC-3")
@contract
async def test_get_of_an_absent_node_sets_no_watch(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    assert await session.zk.get("/a", watch=True) is Failure.NO_NODE
    assert await session.zk.children("/a", watch=True) is Failure.NO_NODE
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(Create("/a/b"))
    assert await settled(session) == []


@pytest.mark.spec("ZC-7")
@contract
async def test_a_child_watch_fires_on_creation_and_deletion_of_a_child(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await other.zk.write(Create("/a/b"))
    await session.wait_for(WatchFired("/a", WatchKind.CHILDREN), times=1)
    await session.zk.children("/a", watch=True)
    await other.zk.write(Delete("/a/b"))
    await session.wait_for(WatchFired("/a", WatchKind.CHILDREN), times=2)


@pytest.mark.spec("ZC-7")
@contract
async def test_a_child_watch_does_not_fire_for_data_and_grandchildren(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/a/b")])
    await session.zk.children("/a", watch=True)
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(SetData("/a/b", b"x"))
    await session.zk.write(Create("/a/b/c"))
    assert await settled(session) == []


@contract
async def test_a_child_watch_fires_on_deletion_of_the_node(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await other.zk.write(Delete("/a"))
    await session.wait_for_watch("/a", WatchKind.DELETED)


@contract
async def test_data_and_child_watch_on_a_node_fire_once_on_deletion(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await session.zk.get("/a", watch=True)
    await session.zk.write(Delete("/a"))
    assert await settled(session) == [WatchFired("/a", WatchKind.DELETED)]


@contract
async def test_deletion_fires_the_data_watch_of_the_node_and_the_child_watch_of_its_parent(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.children("/a", watch=True)
    await session.zk.exists("/a/b", watch=True)
    await session.zk.write(Create("/a/b"))
    assert sorted(await settled(session), key=lambda fired: fired.path) == [
        WatchFired("/a", WatchKind.CHILDREN),
        WatchFired("/a/b", WatchKind.CREATED),
    ]


@contract
async def test_reads_without_watch_neither_set_nor_remove_watches(ensemble: Ensemble) -> None:
    session = await ensemble.open()
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
async def test_writes_set_no_watch(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(SetData("/a", b"y"))
    await session.zk.write(Delete("/a"))
    assert await settled(session) == []


@contract
async def test_a_bulk_read_sets_watches_on_existing_nodes(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/b"), Create("/c")])
    found = await session.zk.get_many(["/a", "/none", "/b", "/c"], watch=True)
    assert [isinstance(node, ZNodeData) for node in found] == [True, False, True, True]
    assert await settled(session) == []
    await session.zk.write(SetData("/a", b"x"))
    await session.zk.write(Delete("/b"))
    await session.zk.write(Create("/none"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED), WatchFired("/b", WatchKind.DELETED)]


@contract
async def test_a_bulk_read_sets_thousands_of_watches(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    paths = [f"/a/{number}" for number in range(2_500)]
    for start in range(0, 2_500, 500):
        await session.zk.multi([Create(path) for path in paths[start : start + 500]])
    await session.zk.get_many(paths, watch=True)
    await session.zk.multi([SetData(path, b"x") for path in paths[::250]])
    assert {fired.path for fired in await settled(session)} == set(paths[::250])


@contract
async def test_a_bulk_read_misses_no_change_made_at_the_same_time(ensemble: Ensemble) -> None:
    """Each change is either in the reader's answer, or notified to it."""
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a", b"0"))
    for round_ in range(1, 11):
        data = b"%d" % round_
        (read,), _ = await asyncio.gather(
            session.zk.get_many(["/a"], watch=True), other.zk.write(SetData("/a", data)), return_exceptions=False
        )
        assert isinstance(read, ZNodeData)
        if read.data != data:
            await session.wait_for(WatchFired("/a", WatchKind.CHANGED))
        session.notifications.clear()
        await session.zk.write(SetData("/a", data))
        session.notifications.clear()


# ------------------------------------------------------------------ once


@pytest.mark.spec("Z3", "ZC-7")
@contract
async def test_a_watch_fires_once(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(SetData("/a", b"1"))
    await session.zk.write(SetData("/a", b"2"))
    await session.zk.write(Delete("/a"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_an_exists_watch_that_fired_on_creation_does_not_fire_on_change(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.exists("/a", watch=True)
    await session.zk.write(Create("/a"))
    await session.zk.write(SetData("/a", b"1"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CREATED)]


@contract
async def test_a_watch_set_twice_fires_once(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.exists("/a", watch=True)
    await session.zk.get_many(["/a", "/a"], watch=True)
    await session.zk.write(SetData("/a", b"1"))
    await session.zk.write(SetData("/a", b"2"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_each_session_has_its_own_watches(ensemble: Ensemble) -> None:
    first, second, third = await ensemble.open(), await ensemble.open(), await ensemble.open()
    await first.zk.write(Create("/a"))
    await first.zk.get("/a", watch=True)
    await second.zk.get("/a", watch=True)
    await third.zk.write(SetData("/a", b"1"))
    await first.wait_for_watch("/a", WatchKind.CHANGED)
    await second.wait_for_watch("/a", WatchKind.CHANGED)
    assert await settled(third) == []


# ------------------------------------------------------------------ order


@pytest.mark.spec("Z3", "ZC-7")
@contract
async def test_a_watch_is_notified_before_an_answer_that_shows_the_change(ensemble: Ensemble) -> None:
    reader, writer = await ensemble.open(), await ensemble.open()
    await writer.zk.write(Create("/a", b"old"))
    for round_ in range(10):
        await reader.zk.get("/a", watch=True)
        write = asyncio.ensure_future(writer.zk.write(SetData("/a", b"new %d" % round_)))
        while await data_of(reader.zk, "/a") != b"new %d" % round_:
            pass
        assert reader.fired == [WatchFired("/a", WatchKind.CHANGED)]
        reader.notifications.clear()
        await write


@contract
async def test_a_watch_is_notified_before_the_answer_to_the_write_that_fired_it(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.write(SetData("/a", b"1"))
    assert session.fired == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_watches_are_notified_in_the_order_of_the_changes(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    paths = [f"/n{number}" for number in (3, 1, 2, 0)]
    for path in paths:
        await session.zk.exists(path, watch=True)
    for path in paths:
        await other.zk.write(Create(path))
    await session.wait_for_watch(paths[-1], WatchKind.CREATED)
    assert [fired.path for fired in session.fired] == paths


# ------------------------------------------------------------------ transactions


@contract
async def test_a_transaction_fires_the_watches_of_all_nodes_it_changes(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.multi([Create("/a"), Create("/b"), Create("/c")])
    await session.zk.get("/a", watch=True)
    await session.zk.get("/b", watch=True)
    await session.zk.children("/c", watch=True)
    await other.zk.multi([SetData("/a", b""), Delete("/b"), Create("/c/d")])
    await session.wait_for_watch("/c", WatchKind.CHILDREN)
    assert session.fired == [
        WatchFired("/a", WatchKind.CHANGED),
        WatchFired("/b", WatchKind.DELETED),
        WatchFired("/c", WatchKind.CHILDREN),
    ]


@contract
async def test_a_failed_transaction_fires_no_watch(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.children("/a", watch=True)
    await session.zk.write(SetData("/a", b"", 7))
    outcome = await session.zk.multi([SetData("/a", b"x"), Create("/a/b"), Delete("/none")])
    assert outcome == MultiFailed(2, Failure.NO_NODE)
    assert await settled(session) == []


# ------------------------------------------------------------------ cuts


@contract
async def test_watches_are_set_again_after_a_connection_loss(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.multi([Create("/data"), Create("/folder")])
    await session.zk.get("/data", watch=True)
    await session.zk.children("/folder", watch=True)
    await session.zk.exists("/absent", watch=True)
    await ensemble.cut(session)
    await ensemble.heal(session)
    assert await session.zk.connected()
    assert await settled(session) == []
    await other.zk.multi([SetData("/data", b"x"), Create("/folder/a"), Create("/absent")])
    await session.wait_for_watch("/data", WatchKind.CHANGED)
    await session.wait_for_watch("/folder", WatchKind.CHILDREN)
    await session.wait_for_watch("/absent", WatchKind.CREATED)


@contract
async def test_a_change_while_disconnected_is_notified_on_reconnecting(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.multi([Create("/changed"), Create("/deleted"), Create("/folder"), Create("/gone")])
    for path in ("/changed", "/deleted"):
        await session.zk.get(path, watch=True)
    for path in ("/folder", "/gone"):
        await session.zk.children(path, watch=True)
    await session.zk.exists("/created", watch=True)
    await ensemble.cut(session)
    await other.zk.multi(
        [SetData("/changed", b"x"), Delete("/deleted"), Create("/folder/a"), Delete("/gone"), Create("/created")]
    )
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)
    assert sorted(await settled(session), key=lambda fired: fired.path) == [
        WatchFired("/changed", WatchKind.CHANGED),
        WatchFired("/created", WatchKind.CREATED),
        WatchFired("/deleted", WatchKind.DELETED),
        WatchFired("/folder", WatchKind.CHILDREN),
        WatchFired("/gone", WatchKind.DELETED),
    ]


@contract
async def test_a_node_created_again_while_disconnected_is_notified_as_changed(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ensemble.cut(session)
    await other.zk.write(Delete("/a"))
    await other.zk.write(Create("/a"))
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_data_and_child_watch_on_a_node_deleted_while_disconnected_fire_once(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.children("/a", watch=True)
    await ensemble.cut(session)
    await other.zk.write(Delete("/a"))
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.DELETED)]


@contract
async def test_a_watch_that_fired_on_reconnecting_is_removed(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ensemble.cut(session)
    await other.zk.write(SetData("/a", b"1"))
    await ensemble.heal(session)
    await session.wait_for_watch("/a", WatchKind.CHANGED)
    await other.zk.write(SetData("/a", b"2"))
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_a_watch_that_fired_before_a_connection_loss_is_not_set_again(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await other.zk.write(SetData("/a", b"1"))
    await session.wait_for_watch("/a", WatchKind.CHANGED)
    await ensemble.cut(session)
    await other.zk.write(SetData("/a", b"2"))
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)
    assert await settled(session) == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_after_a_connection_loss_a_change_is_notified_before_an_answer_shows_it(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a", b"old"))
    await session.zk.get("/a", watch=True)
    await ensemble.cut(session)
    await other.zk.write(SetData("/a", b"new"))
    await ensemble.heal(session)
    assert await session.zk.connected()
    assert await data_of(session.zk, "/a") == b"new"
    assert session.fired == [WatchFired("/a", WatchKind.CHANGED)]


@contract
async def test_a_watch_of_a_bulk_read_survives_a_connection_loss(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.multi([Create("/a"), Create("/b")])
    await session.zk.get_many(["/a", "/b"], watch=True)
    await ensemble.cut(session)
    await other.zk.write(SetData("/a", b"x"))
    await ensemble.heal(session)
    await session.wait_for_watch("/a", WatchKind.CHANGED)
    await other.zk.write(SetData("/b", b"x"))
    await session.wait_for_watch("/b", WatchKind.CHANGED)


@contract
async def test_thousands_of_watches_survive_two_connection_losses(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    paths = [f"/a/{'x' * 100}-{number}" for number in range(3_000)]
    for start in range(0, 3_000, 500):
        await other.zk.multi([Create(path) for path in paths[start : start + 500]])
    await session.zk.get_many(paths, watch=True)
    for cuts in (1, 2):
        await ensemble.cut(session)
        await other.zk.write(SetData(paths[cuts], b"x"))
        await ensemble.heal(session)
        await session.wait_for(SessionResumed, times=cuts)
    await other.zk.write(SetData(paths[-1], b"x"))
    await session.wait_for_watch(paths[-1], WatchKind.CHANGED)
    assert [fired.path for fired in session.fired] == [paths[1], paths[2], paths[-1]]
    assert (await stat_of(other.zk, paths[0])).version == 0


# ------------------------------------------------------------------ chroot


@contract
async def test_watches_below_a_chroot_notify_paths_relative_to_it(ensemble: Ensemble) -> None:
    inside, outside = await ensemble.open(chroot="/app"), await ensemble.open()
    await inside.zk.write(Create("/a"))
    await inside.zk.get("/a", watch=True)
    await inside.zk.children("/", watch=True)
    await outside.zk.write(SetData("/app/a", b"x"))
    await outside.zk.write(Create("/app/b"))
    await inside.wait_for_watch("/a", WatchKind.CHANGED)
    await inside.wait_for_watch("/", WatchKind.CHILDREN)


@contract
async def test_watches_below_a_chroot_survive_a_connection_loss(ensemble: Ensemble) -> None:
    inside, outside = await ensemble.open(chroot="/app"), await ensemble.open()
    await inside.zk.write(Create("/a"))
    await inside.zk.get("/a", watch=True)
    await inside.zk.children("/", watch=True)
    await ensemble.cut(inside)
    await outside.zk.write(SetData("/app/a", b"x"))
    await ensemble.heal(inside)
    await inside.wait_for_watch("/a", WatchKind.CHANGED)
    await outside.zk.write(Create("/app/b"))
    await inside.wait_for_watch("/", WatchKind.CHILDREN)
