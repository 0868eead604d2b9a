"""What we believe of sessions: ephemerals, cuts, lost answers, expiry. Each case runs against simulator and real
server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from foundation.zk.client import (
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
from tests.contracts.subject import PATIENCE_S, Ground, Session, contract, data_of, names_below, stat_of


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


async def resumed(ground: Ground, session: Session) -> None:
    await ground.heal(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await session.zk.connected()


# ------------------------------------------------------------------ a session


@contract
async def test_a_session_is_connected_and_has_the_timeout_it_asked_for(ground: Ground) -> None:
    session = await ground.open()
    assert await session.zk.connected()
    assert session.zk.session_timeout_ms == 6_000
    assert session.heard == []


@contract
async def test_sessions_differ_and_see_each_other(ground: Ground) -> None:
    first, second = (await ground.open()).zk, (await ground.open()).zk
    assert first.session_id != second.session_id
    await first.write(Create("/a", b"x"))
    assert await data_of(second, "/a") == b"x"


@contract
async def test_where_no_server_answers_the_failure_names_the_time_waited(ground: Ground) -> None:
    message = await ground.connect_refused()
    assert "700 ms" in message


# ------------------------------------------------------------------ ephemerals


@contract
async def test_an_ephemeral_names_its_owner(ground: Ground) -> None:
    zk = (await ground.open()).zk
    await zk.write(Create("/mortal", ephemeral=True))
    await zk.write(Create("/lasting"))
    assert (await stat_of(zk, "/mortal")).ephemeral_owner == zk.session_id
    assert (await stat_of(zk, "/lasting")).ephemeral_owner == 0


@contract
async def test_an_ephemeral_has_no_children(ground: Ground) -> None:
    zk = (await ground.open()).zk
    await zk.write(Create("/mortal", ephemeral=True))
    assert await zk.write(Create("/mortal/child")) is Failure.NO_CHILDREN_FOR_EPHEMERALS


@contract
async def test_anybody_may_change_and_delete_an_ephemeral(ground: Ground) -> None:
    owner, other = (await ground.open()).zk, (await ground.open()).zk
    await owner.write(Create("/mortal", ephemeral=True))
    await other.write(SetData("/mortal", b"x"))
    assert (await stat_of(owner, "/mortal")).ephemeral_owner == owner.session_id
    assert await other.write(Delete("/mortal")) == Deleted()


@pytest.mark.spec("Z2", "ZC-7")
@contract
async def test_ephemerals_go_when_their_session_is_closed(ground: Ground) -> None:
    owner, other = await ground.open(), await ground.open()
    await owner.zk.multi([Create("/a"), Create("/a/mortal", ephemeral=True), Create("/a/lasting")])
    await other.zk.exists("/a/mortal", watch=True)
    await other.zk.children("/a", watch=True)
    await owner.zk.close()
    await other.hears_watch("/a/mortal", WatchKind.DELETED)
    await other.hears_watch("/a", WatchKind.CHILDREN)
    assert await names_below(other.zk, "/a") == ("lasting",)


@pytest.mark.spec("Z2", "ZC-7")
@contract
async def test_all_ephemerals_of_an_expired_session_go_at_once(ground: Ground) -> None:
    owner, other = await ground.open(), await ground.open()
    paths = [f"/mortal-{number}" for number in range(20)]
    await owner.zk.multi([Create(path, ephemeral=True) for path in paths])
    for path in paths:
        await other.zk.exists(path, watch=True)
    await ground.expire(owner)
    await other.hears(WatchFired, times=1)
    assert await other.zk.get_many(paths) == [Failure.NO_NODE] * 20
    assert {fired.kind for fired in other.fired} == {WatchKind.DELETED}


@contract
async def test_ephemerals_survive_a_cut(ground: Ground) -> None:
    owner, other = await ground.open(), await ground.open()
    await owner.zk.write(Create("/mortal", ephemeral=True))
    before = await stat_of(other.zk, "/mortal")
    await ground.cut(owner)
    assert await stat_of(other.zk, "/mortal") == before
    await resumed(ground, owner)
    assert await stat_of(owner.zk, "/mortal") == before


@contract
async def test_a_deleted_ephemeral_is_no_concern_of_its_session_any_more(ground: Ground) -> None:
    owner, other = await ground.open(), await ground.open()
    await owner.zk.write(Create("/a", ephemeral=True))
    await owner.zk.write(Delete("/a"))
    await other.zk.write(Create("/a"))
    await owner.zk.close()
    assert (await stat_of(other.zk, "/a")).ephemeral_owner == 0


# ------------------------------------------------------------------ cuts


@contract
async def test_a_cut_suspends_and_healing_resumes_the_same_session(ground: Ground) -> None:
    session = await ground.open()
    session_id = session.zk.session_id
    await ground.cut(session)
    await ground.heal(session)
    await session.hears(SessionResumed)
    assert session.heard == [SessionSuspended(), SessionResumed()]
    assert session.zk.session_id == session_id


@contract
async def test_connected_waits_for_the_end_of_a_cut(ground: Ground) -> None:
    session = await ground.open()
    await ground.cut(session)
    waiting = asyncio.ensure_future(session.zk.connected())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await ground.heal(session)
    assert await waiting
    assert SessionResumed() in session.heard


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_during_a_cut_every_operation_answers_unknown(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await ground.cut(session)
    answers = await asyncio.gather(*one_of_each(session.zk))
    assert answers == [Failure.UNKNOWN] * len(answers)
    assert await session.zk.get_many(["/a", "/b"]) == [Failure.UNKNOWN] * 2
    await resumed(ground, session)
    assert (await stat_of(session.zk, "/a")).version == 0


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_lost_on_the_way_answers_unknown_and_was_not_applied(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await session.zk.write(Create("/a"))
    await ground.hold_requests(session)
    under_way = asyncio.gather(
        session.zk.write(Create("/b")), session.zk.multi([SetData("/a", b"x", 0)]), session.zk.get_many(["/a", "/b"])
    )
    await ground.holds_a_request(session)
    assert not under_way.done()
    await ground.cut(session)
    assert list(await under_way) == [Failure.UNKNOWN, Failure.UNKNOWN, [Failure.UNKNOWN] * 2]
    assert await other.zk.exists("/b") is Failure.NO_NODE
    assert (await stat_of(other.zk, "/a")).version == 0


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_whose_answer_is_lost_answers_unknown_and_was_applied(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await session.zk.write(Create("/a"))
    await other.zk.exists("/c", watch=True)
    await ground.hold_answers(session)
    under_way = asyncio.gather(
        session.zk.write(Create("/b", b"", ephemeral=True)),
        session.zk.multi([SetData("/a", b"x", 0), Create("/c")]),
        session.zk.get_many(["/a", "/b"]),
    )
    await other.hears_watch("/c", WatchKind.CREATED)
    await ground.cut(session)
    assert list(await under_way) == [Failure.UNKNOWN, Failure.UNKNOWN, [Failure.UNKNOWN] * 2]
    assert (await stat_of(other.zk, "/b")).ephemeral_owner == session.zk.session_id
    assert await data_of(other.zk, "/a") == b"x"


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_a_request_that_answered_unknown_may_still_be_applied_while_its_session_is_cut(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await session.zk.write(Create("/a"))
    await other.zk.get("/a", watch=True)
    await ground.hold_requests(session)
    late = asyncio.ensure_future(session.zk.write(SetData("/a", b"late")))
    await ground.holds_a_request(session)
    await ground.part(session)
    assert await late is Failure.UNKNOWN
    assert await data_of(other.zk, "/a") == b""
    await ground.deliver_late(session)
    await other.hears_watch("/a", WatchKind.CHANGED)
    await resumed(ground, session)
    assert await data_of(session.zk, "/a") == b"late"


@pytest.mark.spec("Z4")
@contract
async def test_nothing_of_the_old_connection_is_applied_after_the_session_resumed(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    await ground.hold_requests(session)
    late = asyncio.ensure_future(session.zk.write(SetData("/a", b"late")))
    await ground.holds_a_request(session)
    await ground.part(session)
    assert await late is Failure.UNKNOWN
    await resumed(ground, session)
    before = await stat_of(session.zk, "/a")
    assert before.version == 0
    await ground.deliver_late(session)
    for _ in range(20):
        await asyncio.sleep(0.02)
        assert await stat_of(session.zk, "/a") == before


@contract
async def test_last_zxid_never_goes_back_over_a_cut(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a"))
    before = session.zk.last_zxid
    await ground.cut(session)
    assert session.zk.last_zxid == before
    await resumed(ground, session)
    await session.zk.get("/a")
    assert session.zk.last_zxid >= before


@contract
async def test_a_session_survives_many_cuts(ground: Ground) -> None:
    session = await ground.open()
    await session.zk.write(Create("/a", ephemeral=True))
    for cuts in range(1, 5):
        await ground.cut(session)
        await ground.heal(session)
        await session.hears(SessionResumed, times=cuts)
        await session.zk.write(SetData("/a", b"x"))
    assert (await stat_of(session.zk, "/a")).version == 4
    assert session.heard == [SessionSuspended(), SessionResumed()] * 4


MANY = 200
"""Requests under way at the same time: enough for several packets."""


def create_many(zk: ZooKeeperClient, prefix: str) -> list[asyncio.Future[OpResult | Failure]]:
    return [asyncio.ensure_future(zk.write(Create(f"/{prefix}{number:03d}"))) for number in range(MANY)]


async def assert_created_exist(zk: ZooKeeperClient, answers: list[OpResult | Failure]) -> None:
    made = await names_below(zk, "/")
    assert [answer.path for answer in answers if isinstance(answer, Created) and answer.path[1:] not in made] == []


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_many_requests_across_a_cut_are_all_answered(ground: Ground) -> None:
    """Kafka's `ZooKeeperClientTest.testConnectionLossRequestTermination`, with writes."""
    session, other = await ground.open(), await ground.open()
    before = create_many(session.zk, "before")
    await before[0]
    await ground.hold_answers(session)
    during = create_many(session.zk, "during")
    await ground.cut(session)
    after = create_many(session.zk, "after")
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*before, *during, *after)
    assert all(isinstance(answer, Created) or answer is Failure.UNKNOWN for answer in answers)
    assert list(answers[MANY:]) == [Failure.UNKNOWN] * (2 * MANY)
    await assert_created_exist(other.zk, answers)
    await resumed(ground, session)
    answers = await asyncio.gather(*create_many(session.zk, "later"))
    assert all(isinstance(answer, Created) for answer in answers)
    await assert_created_exist(other.zk, answers)


# ------------------------------------------------------------------ expiry


@pytest.mark.spec("D13")
@contract
async def test_expiry_is_the_last_thing_heard_and_the_handle_is_dead_for_ever(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await ground.expire(session)
    await session.hears(SessionExpired)
    answers = await asyncio.gather(*one_of_each(session.zk))
    assert answers == [Failure.SESSION_EXPIRED] * len(answers)
    assert await session.zk.get_many(["/a", "/b"]) == [Failure.SESSION_EXPIRED] * 2
    assert not await session.zk.connected()
    await other.zk.write(SetData("/a", b"x"))
    await asyncio.sleep(0.5)
    assert session.heard[-1] == SessionExpired()
    assert session.heard.count(SessionExpired()) == 1
    assert await session.zk.get("/a") is Failure.SESSION_EXPIRED


@contract
async def test_an_idle_session_hears_that_it_has_expired(ground: Ground) -> None:
    session = await ground.open()
    await ground.expire(session)
    await session.hears(SessionExpired)
    assert SessionResumed() not in session.heard


@contract
async def test_a_session_that_expired_during_a_cut_hears_it_when_it_is_healed(ground: Ground) -> None:
    session = await ground.open()
    await ground.cut(session)
    waiting = asyncio.ensure_future(session.zk.connected())
    await ground.expire(session)
    await session.hears(SessionExpired)
    assert not await waiting
    assert session.heard == [SessionSuspended(), SessionExpired()]


@contract
async def test_a_request_under_way_when_the_session_expires_has_an_answer(ground: Ground) -> None:
    session = await ground.open()
    await ground.hold_requests(session)
    under_way = asyncio.ensure_future(session.zk.write(Create("/a")))
    await ground.holds_a_request(session)
    await ground.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await under_way in (Failure.UNKNOWN, Failure.SESSION_EXPIRED)
    await session.hears(SessionExpired)


@pytest.mark.spec("Z5", "D13")
@contract
async def test_many_requests_across_an_expiry_are_all_answered(ground: Ground) -> None:
    """Kafka's `ZooKeeperClientTest.testSessionExpiry`, with writes."""
    session, other = await ground.open(), await ground.open()
    before = create_many(session.zk, "before")
    await before[0]
    await ground.hold_requests(session)
    during = create_many(session.zk, "during")
    await ground.holds_a_request(session)
    await ground.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*before, *during)
    lost = (Failure.UNKNOWN, Failure.SESSION_EXPIRED)
    assert all(isinstance(answer, Created) or answer in lost for answer in answers)
    assert all(answer in lost for answer in answers[MANY:])
    await assert_created_exist(other.zk, answers)
    await session.hears(SessionExpired)
    assert await asyncio.gather(*create_many(session.zk, "later")) == [Failure.SESSION_EXPIRED] * MANY


@pytest.mark.spec("D13")
@contract
async def test_a_new_session_is_another_and_hears_nothing_of_the_old_ones_watches(ground: Ground) -> None:
    old, other = await ground.open(), await ground.open()
    await other.zk.write(Create("/a"))
    await old.zk.get("/a", watch=True)
    await ground.expire(old)
    await old.hears(SessionExpired)
    new = await ground.open()
    assert new.zk.session_id != old.zk.session_id
    await other.zk.write(SetData("/a", b"x"))
    assert await data_of(new.zk, "/a") == b"x"
    assert new.heard == []


@pytest.mark.spec("BR-4")
@contract
async def test_what_an_expired_session_owned_can_be_created_by_the_next(ground: Ground) -> None:
    old = await ground.open()
    await old.zk.write(Create("/mortal", ephemeral=True))
    first = await stat_of(old.zk, "/mortal")
    await ground.expire(old)
    await old.hears(SessionExpired)
    new = await ground.open()
    assert isinstance(await new.zk.multi([Create("/mortal", ephemeral=True)]), MultiOk)
    assert (await stat_of(new.zk, "/mortal")).czxid > first.czxid


# ------------------------------------------------------------------ closing


@contract
async def test_a_closed_session_is_dead_and_says_nothing(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    await session.zk.write(Create("/a"))
    await session.zk.get("/a", watch=True)
    await session.zk.close()
    await session.zk.close()
    await other.zk.write(SetData("/a", b"x"))
    assert await session.zk.get("/a") is Failure.SESSION_EXPIRED
    assert await session.zk.multi([Create("/b")]) is Failure.SESSION_EXPIRED
    assert not await session.zk.connected()
    assert session.heard == []


@contract
async def test_what_was_sent_before_closing_is_answered(ground: Ground) -> None:
    session, other = await ground.open(), await ground.open()
    write = asyncio.ensure_future(session.zk.write(Create("/a")))
    for _ in range(3):
        await asyncio.sleep(0)
    await session.zk.close()
    assert await write is not Failure.UNKNOWN
    assert (await stat_of(other.zk, "/a")).ephemeral_owner == 0


@contract
async def test_a_session_can_be_closed_during_a_cut_and_after_it_has_expired(ground: Ground) -> None:
    cut, expired = await ground.open(), await ground.open()
    await ground.cut(cut)
    await ground.expire(expired)
    await expired.hears(SessionExpired)
    async with asyncio.timeout(PATIENCE_S):
        await cut.zk.close()
        await expired.zk.close()
    assert await cut.zk.get("/") is Failure.SESSION_EXPIRED
