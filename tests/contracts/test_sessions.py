"""ZooKeeper sessions: ephemeral nodes, connection loss, lost answers, expiry. Each case runs against both subjects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tests.contracts.subject import (
    PATIENCE_S,
    SESSION_TIMEOUT_MS,
    Ensemble,
    Session,
    contract,
    data_of,
    names_below,
    stat_of,
)
from understudy.foundation.zk.client import (
    Check,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    MultiOk,
    OpResult,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    WatchFired,
    WatchKind,
    ZooKeeperClient,
)


def one_of_each(zk: ZooKeeperClient) -> list[Awaitable[object]]:
    return [
        zk.get("/a"),
        zk.exists("/a"),
        zk.children("/a"),
        zk.write(SetData("/a", b"x")),
        zk.write(Create("/a/b")),
        zk.write(Delete("/a")),
        zk.multi([Check("/a", 0)]),
    ]


async def resume(ensemble: Ensemble, session: Session) -> None:
    await ensemble.heal(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await session.zk.connected()


# ------------------------------------------------------------------ a session


@contract
async def test_a_session_is_connected_and_has_the_timeout_it_asked_for(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    assert await session.zk.connected()
    assert session.zk.session_timeout_ms == SESSION_TIMEOUT_MS
    assert session.notifications == []


@contract
async def test_sessions_have_different_ids_and_read_each_others_writes(ensemble: Ensemble) -> None:
    first, second = (await ensemble.open()).zk, (await ensemble.open()).zk
    assert first.session_id != second.session_id
    await first.write(Create("/a", b"x"))
    assert await data_of(second, "/a") == b"x"


@contract
async def test_a_connection_timeout_is_named_in_the_error(ensemble: Ensemble) -> None:
    message = await ensemble.connect_refused()
    assert "700 ms" in message


# ------------------------------------------------------------------ ephemerals


@contract
async def test_an_ephemeral_node_has_its_session_as_owner(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/ephemeral", ephemeral=True))
    await zk.write(Create("/persistent"))
    assert (await stat_of(zk, "/ephemeral")).ephemeral_owner == zk.session_id
    assert (await stat_of(zk, "/persistent")).ephemeral_owner == 0


@contract
async def test_an_ephemeral_node_cannot_have_children(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/ephemeral", ephemeral=True))
    assert await zk.write(Create("/ephemeral/child")) is Failure.NO_CHILDREN_FOR_EPHEMERALS


@contract
async def test_any_session_may_change_and_delete_an_ephemeral_node(ensemble: Ensemble) -> None:
    owner, other = (await ensemble.open()).zk, (await ensemble.open()).zk
    await owner.write(Create("/ephemeral", ephemeral=True))
    await other.write(SetData("/ephemeral", b"x"))
    assert (await stat_of(owner, "/ephemeral")).ephemeral_owner == owner.session_id
    assert await other.write(Delete("/ephemeral")) == Deleted()


@pytest.mark.spec("Z2", "ZC-7")
@contract
async def test_ephemeral_nodes_are_deleted_when_their_session_is_closed(ensemble: Ensemble) -> None:
    owner, other = await ensemble.open(), await ensemble.open()
    await owner.zk.multi([Create("/a"), Create("/a/ephemeral", ephemeral=True), Create("/a/persistent")])
    await other.zk.exists("/a/ephemeral", watch=True)
    await other.zk.children("/a", watch=True)
    await owner.zk.close()
    await other.wait_for_watch("/a/ephemeral", WatchKind.DELETED)
    await other.wait_for_watch("/a", WatchKind.CHILDREN)
    assert await names_below(other.zk, "/a") == ("persistent",)


@pytest.mark.spec("Z2", "ZC-7")
@contract
async def test_ephemeral_nodes_of_an_expired_session_are_deleted_in_one_transaction(ensemble: Ensemble) -> None:
    owner, other = await ensemble.open(), await ensemble.open()
    paths = [f"/ephemeral-{number}" for number in range(20)]
    await owner.zk.multi([Create(path, ephemeral=True) for path in paths])
    for path in paths:
        await other.zk.exists(path, watch=True)
    await ensemble.expire(owner)
    await other.wait_for(WatchFired, times=1)
    assert await other.zk.get_many(paths) == [Failure.NO_NODE] * 20
    assert {fired.kind for fired in other.fired} == {WatchKind.DELETED}


@contract
async def test_ephemeral_nodes_survive_a_connection_loss(ensemble: Ensemble) -> None:
    owner, other = await ensemble.open(), await ensemble.open()
    await owner.zk.write(Create("/ephemeral", ephemeral=True))
    before = await stat_of(other.zk, "/ephemeral")
    await ensemble.cut(owner)
    assert await stat_of(other.zk, "/ephemeral") == before
    await resume(ensemble, owner)
    assert await stat_of(owner.zk, "/ephemeral") == before


@contract
async def test_a_node_created_again_is_not_deleted_with_the_former_owners_session(ensemble: Ensemble) -> None:
    owner, other = await ensemble.open(), await ensemble.open()
    await owner.zk.write(Create("/a", ephemeral=True))
    await owner.zk.write(Delete("/a"))
    await other.zk.write(Create("/a"))
    await owner.zk.close()
    assert (await stat_of(other.zk, "/a")).ephemeral_owner == 0


# ------------------------------------------------------------------ cuts


@contract
async def test_a_connection_loss_suspends_the_session_and_reconnecting_resumes_it(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    session_id = session.zk.session_id
    await ensemble.cut(session)
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)
    assert session.notifications == [SessionSuspended(), SessionResumed()]
    assert session.zk.session_id == session_id


@contract
async def test_connected_waits_until_the_session_is_resumed(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await ensemble.cut(session)
    waiting = asyncio.ensure_future(session.zk.connected())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await ensemble.heal(session)
    assert await waiting
    assert SessionResumed() in session.notifications


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_every_operation_answers_unknown_while_disconnected(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await ensemble.cut(session)
    answers = await asyncio.gather(*one_of_each(session.zk))
    assert answers == [Failure.UNKNOWN] * len(answers)
    assert await session.zk.get_many(["/a", "/b"]) == [Failure.UNKNOWN] * 2
    await resume(ensemble, session)
    assert (await stat_of(session.zk, "/a")).version == 0


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_lost_before_the_server_answers_unknown_and_is_not_applied(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.write(Create("/a"))
    await ensemble.hold_requests(session)
    in_flight = asyncio.gather(
        session.zk.write(Create("/b")), session.zk.multi([SetData("/a", b"x", 0)]), session.zk.get_many(["/a", "/b"])
    )
    await ensemble.wait_for_held_request(session)
    assert not in_flight.done()
    await ensemble.cut(session)
    assert list(await in_flight) == [Failure.UNKNOWN, Failure.UNKNOWN, [Failure.UNKNOWN] * 2]
    assert await other.zk.exists("/b") is Failure.NO_NODE
    assert (await stat_of(other.zk, "/a")).version == 0


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_whose_answer_is_lost_answers_unknown_and_is_applied(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.write(Create("/a"))
    await other.zk.exists("/c", watch=True)
    await ensemble.hold_answers(session)
    in_flight = asyncio.gather(
        session.zk.write(Create("/b", b"", ephemeral=True)),
        session.zk.multi([SetData("/a", b"x", 0), Create("/c")]),
        session.zk.get_many(["/a", "/b"]),
    )
    await other.wait_for_watch("/c", WatchKind.CREATED)
    await ensemble.cut(session)
    assert list(await in_flight) == [Failure.UNKNOWN, Failure.UNKNOWN, [Failure.UNKNOWN] * 2]
    assert (await stat_of(other.zk, "/b")).ephemeral_owner == session.zk.session_id
    assert await data_of(other.zk, "/a") == b"x"


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_that_answered_unknown_may_be_applied_while_disconnected(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.write(Create("/a"))
    await other.zk.get("/a", watch=True)
    await ensemble.hold_requests(session)
    late = asyncio.ensure_future(session.zk.write(SetData("/a", b"late")))
    await ensemble.wait_for_held_request(session)
    await ensemble.cut_client_end(session)
    assert await late is Failure.UNKNOWN
    assert await data_of(other.zk, "/a") == b""
    await ensemble.deliver_held_requests(session)
    await other.wait_for_watch("/a", WatchKind.CHANGED)
    await resume(ensemble, session)
    assert await data_of(session.zk, "/a") == b"late"


@pytest.mark.spec("Z4")
@contract
async def test_no_request_of_the_old_connection_is_applied_after_the_session_resumed(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    await ensemble.hold_requests(session)
    late = asyncio.ensure_future(session.zk.write(SetData("/a", b"late")))
    await ensemble.wait_for_held_request(session)
    await ensemble.cut_client_end(session)
    assert await late is Failure.UNKNOWN
    await resume(ensemble, session)
    before = await stat_of(session.zk, "/a")
    assert before.version == 0
    await ensemble.deliver_held_requests(session)
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert await stat_of(session.zk, "/a") == before


@contract
async def test_last_zxid_does_not_decrease_over_a_connection_loss(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a"))
    before = session.zk.last_zxid
    await ensemble.cut(session)
    assert session.zk.last_zxid == before
    await resume(ensemble, session)
    await session.zk.get("/a")
    assert session.zk.last_zxid >= before


@contract
async def test_a_session_survives_many_connection_losses(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.write(Create("/a", ephemeral=True))
    for cuts in range(1, 5):
        await ensemble.cut(session)
        await ensemble.heal(session)
        await session.wait_for(SessionResumed, times=cuts)
        await session.zk.write(SetData("/a", b"x"))
    assert (await stat_of(session.zk, "/a")).version == 4
    assert session.notifications == [SessionSuspended(), SessionResumed()] * 4


MANY = 200
"""Requests under way at the same time: enough for several packets."""


def create_many(zk: ZooKeeperClient, prefix: str) -> list[asyncio.Future[OpResult | Failure]]:
    return [asyncio.ensure_future(zk.write(Create(f"/{prefix}{number:03d}"))) for number in range(MANY)]


async def assert_created_exist(zk: ZooKeeperClient, answers: list[OpResult | Failure]) -> None:
    made = await names_below(zk, "/")
    assert [answer.path for answer in answers if isinstance(answer, Created) and answer.path[1:] not in made] == []


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_many_requests_across_a_cut_are_all_answered(ensemble: Ensemble) -> None:
    """Kafka's `ZooKeeperClientTest.testConnectionLossRequestTermination`, with writes."""
    session, other = await ensemble.open(), await ensemble.open()
    before = create_many(session.zk, "before")
    await before[0]
    await ensemble.hold_answers(session)
    during = create_many(session.zk, "during")
    await ensemble.cut(session)
    after = create_many(session.zk, "after")
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*before, *during, *after)
    assert all(isinstance(answer, Created) or answer is Failure.UNKNOWN for answer in answers)
    assert list(answers[MANY:]) == [Failure.UNKNOWN] * (2 * MANY)
    await assert_created_exist(other.zk, answers)
    await resume(ensemble, session)
    answers = await asyncio.gather(*create_many(session.zk, "later"))
    assert all(isinstance(answer, Created) for answer in answers)
    await assert_created_exist(other.zk, answers)


# ------------------------------------------------------------------ expiry


@pytest.mark.spec("D13")
@contract
async def test_expiry_is_the_last_notification_and_every_later_request_fails(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ensemble.expire(session)
    await session.wait_for(SessionExpired)
    answers = await asyncio.gather(*one_of_each(session.zk))
    assert answers == [Failure.SESSION_EXPIRED] * len(answers)
    assert await session.zk.get_many(["/a", "/b"]) == [Failure.SESSION_EXPIRED] * 2
    assert not await session.zk.connected()
    await other.zk.write(SetData("/a", b"x"))
    await asyncio.sleep(0.5)
    assert session.notifications[-1] == SessionExpired()
    assert session.notifications.count(SessionExpired()) == 1
    assert await session.zk.get("/a") is Failure.SESSION_EXPIRED


@contract
async def test_an_idle_session_is_notified_of_its_expiry(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await ensemble.expire(session)
    await session.wait_for(SessionExpired)
    assert SessionResumed() not in session.notifications


@contract
async def test_a_session_that_expired_while_disconnected_is_notified_on_reconnecting(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await ensemble.cut(session)
    waiting = asyncio.ensure_future(session.zk.connected())
    await ensemble.expire(session)
    await session.wait_for(SessionExpired)
    assert not await waiting
    assert session.notifications == [SessionSuspended(), SessionExpired()]


@contract
async def test_a_request_in_flight_when_the_session_expires_is_answered(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await ensemble.hold_requests(session)
    in_flight = asyncio.ensure_future(session.zk.write(Create("/a")))
    await ensemble.wait_for_held_request(session)
    await ensemble.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await in_flight in (Failure.UNKNOWN, Failure.SESSION_EXPIRED)
    await session.wait_for(SessionExpired)


@pytest.mark.spec("Z5", "D13")
@contract
async def test_many_requests_across_an_expiry_are_all_answered(ensemble: Ensemble) -> None:
    """Kafka's `ZooKeeperClientTest.testSessionExpiry`, with writes."""
    session, other = await ensemble.open(), await ensemble.open()
    before = create_many(session.zk, "before")
    await before[0]
    await ensemble.hold_requests(session)
    during = create_many(session.zk, "during")
    await ensemble.wait_for_held_request(session)
    await ensemble.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*before, *during)
    lost = (Failure.UNKNOWN, Failure.SESSION_EXPIRED)
    assert all(isinstance(answer, Created) or answer in lost for answer in answers)
    assert all(answer in lost for answer in answers[MANY:])
    await assert_created_exist(other.zk, answers)
    await session.wait_for(SessionExpired)
    assert await asyncio.gather(*create_many(session.zk, "later")) == [Failure.SESSION_EXPIRED] * MANY


@pytest.mark.spec("D13")
@contract
async def test_a_new_session_has_no_watches_of_the_expired_one(ensemble: Ensemble) -> None:
    old, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    await old.zk.get("/a", watch=True)
    await ensemble.expire(old)
    await old.wait_for(SessionExpired)
    new = await ensemble.open()
    assert new.zk.session_id != old.zk.session_id
    await other.zk.write(SetData("/a", b"x"))
    assert await data_of(new.zk, "/a") == b"x"
    assert new.notifications == []


@pytest.mark.spec("BR-4")
@contract
async def test_ephemeral_nodes_of_an_expired_session_can_be_created_by_the_next(ensemble: Ensemble) -> None:
    old = await ensemble.open()
    await old.zk.write(Create("/ephemeral", ephemeral=True))
    first = await stat_of(old.zk, "/ephemeral")
    await ensemble.expire(old)
    await old.wait_for(SessionExpired)
    new = await ensemble.open()
    assert isinstance(await new.zk.multi([Create("/ephemeral", ephemeral=True)]), MultiOk)
    assert (await stat_of(new.zk, "/ephemeral")).czxid > first.czxid


# ------------------------------------------------------------------ closing


@contract
async def test_a_closed_session_answers_session_expired_and_notifies_nothing(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.close()
    await session.zk.close()
    await other.zk.write(SetData("/a", b"x"))
    assert await session.zk.get("/a") is Failure.SESSION_EXPIRED
    assert await session.zk.multi([Create("/b")]) is Failure.SESSION_EXPIRED
    assert not await session.zk.connected()
    assert session.notifications == []


@contract
async def test_requests_sent_before_closing_are_answered(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    write = asyncio.ensure_future(session.zk.write(Create("/a")))
    for _ in range(3):
        await asyncio.sleep(0)
    await session.zk.close()
    assert await write is not Failure.UNKNOWN
    assert (await stat_of(other.zk, "/a")).ephemeral_owner == 0


@contract
async def test_a_session_can_be_closed_while_disconnected_and_after_expiry(ensemble: Ensemble) -> None:
    cut, expired = await ensemble.open(), await ensemble.open()
    await ensemble.cut(cut)
    await ensemble.expire(expired)
    await expired.wait_for(SessionExpired)
    async with asyncio.timeout(PATIENCE_S):
        await cut.zk.close()
        await expired.zk.close()
    assert await cut.zk.get("/") is Failure.SESSION_EXPIRED
