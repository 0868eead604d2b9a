"""The contract of a session that is cut, expires or is closed with many requests in flight.

Mirrors the cases of `kafka.zookeeper.ZooKeeperClientTest` about connection loss, and expiry and closing at one time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from tests.contracts.subject import PATIENCE_S, Ensemble, Session, contract, names_below
from understudy.foundation.zk.client import (
    Check,
    Create,
    Failure,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchFired,
    ZooKeeperClient,
)

OF_A_KIND = 300
"""Requests of each kind that are under way: together more than fits into one packet or into a pipe."""


def send_many(zk: ZooKeeperClient) -> list[asyncio.Future[object]]:
    """Send reads, watched reads, writes and transactions; every write and transaction creates its own child of `/a`."""

    def send(request: Awaitable[object]) -> asyncio.Future[object]:
        return asyncio.ensure_future(request)

    return [
        future
        for number in range(OF_A_KIND)
        for future in (
            send(zk.get("/a")),
            send(zk.exists(f"/absent-{number}", watch=True)),
            send(zk.children("/a", watch=True)),
            send(zk.get_many(["/a", "/b"], watch=True)),
            send(zk.write(Create(f"/a/written-{number}"))),
            send(zk.multi([Check("/a", 0), Create(f"/a/transaction-{number}")])),
        )
    ]


async def distinct_answers(under_way: Sequence[asyncio.Future[object]]) -> set[object]:
    """Wait until every request is answered; return the distinct answers, with the answers of a bulk read one by one."""
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*under_way)
    return {part for answer in answers for part in (answer if isinstance(answer, list) else [answer])}


async def resume(ensemble: Ensemble, session: Session) -> None:
    await ensemble.heal(session)
    await session.wait_for(SessionResumed)


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_many_requests_that_a_cut_loses_answer_unknown_after_the_session_is_suspended(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/b")])
    await ensemble.hold_requests(session)
    under_way = send_many(session.zk)
    suspended_when_answered: list[bool] = []
    for request in under_way:
        request.add_done_callback(lambda _: suspended_when_answered.append(SessionSuspended() in session.notifications))
    await ensemble.wait_for_held_request(session)
    await ensemble.cut(session)
    assert await distinct_answers(under_way) == {Failure.UNKNOWN}
    assert suspended_when_answered == [True] * len(under_way)
    await resume(ensemble, session)
    assert await names_below(session.zk, "/a") == ()
    assert session.notifications == [SessionSuspended(), SessionResumed()]


@pytest.mark.spec("Z5", "R-5")
@contract
async def test_many_requests_whose_answers_a_cut_loses_answer_unknown_and_are_applied_once(ensemble: Ensemble) -> None:
    session, other = await ensemble.open(), await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/b")])
    await other.zk.exists(f"/a/transaction-{OF_A_KIND - 1}", watch=True)
    await ensemble.hold_answers(session)
    under_way = send_many(session.zk)
    await other.wait_for(WatchFired)
    await ensemble.cut(session)
    assert await distinct_answers(under_way) == {Failure.UNKNOWN}
    await resume(ensemble, session)
    assert len(await names_below(session.zk, "/a")) == 2 * OF_A_KIND
    # The lost answers would have armed watches: none of them is armed again, so none fires.
    assert session.notifications == [SessionSuspended(), SessionResumed()]
    assert Failure.UNKNOWN not in await distinct_answers(send_many(session.zk))


@contract
async def test_many_requests_under_way_when_the_session_expires_are_answered(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/b")])
    await ensemble.hold_answers(session)
    under_way = send_many(session.zk)
    await ensemble.expire(session)
    await session.wait_for(SessionExpired)
    assert await distinct_answers(under_way) <= {Failure.UNKNOWN, Failure.SESSION_EXPIRED}
    assert await distinct_answers(send_many(session.zk)) == {Failure.SESSION_EXPIRED}
    assert session.notifications[-1] == SessionExpired()


@pytest.mark.spec("R-5")
@contract
async def test_requests_repeated_across_cuts_and_an_expiry_all_end(ensemble: Ensemble) -> None:
    """Twenty callers repeat what answered UNKNOWN once the session is connected again, as Kafka's client does."""
    session, other = await ensemble.open(), await ensemble.open()
    await other.zk.write(Create("/a"))
    acknowledged = unknown = 0

    async def create_until_the_session_expires(caller: int) -> None:
        nonlocal acknowledged, unknown
        number = 0
        while (answer := await session.zk.write(Create(f"/a/{caller}-{number}"))) is not Failure.SESSION_EXPIRED:
            number += 1
            if answer is Failure.UNKNOWN:
                unknown += 1
                await session.zk.connected()
            else:
                assert not isinstance(answer, Failure)
                acknowledged += 1

    callers = [asyncio.ensure_future(create_until_the_session_expires(caller)) for caller in range(20)]
    for cuts in range(1, 4):
        before = acknowledged
        async with asyncio.timeout(PATIENCE_S):
            while acknowledged < before + 100:
                await asyncio.sleep(0.01)
        await ensemble.cut(session)
        await ensemble.heal(session)
        await session.wait_for(SessionResumed, times=cuts)
    await ensemble.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*callers)
    await session.wait_for(SessionExpired)
    assert acknowledged <= len(await names_below(other.zk, "/a")) <= acknowledged + unknown


# ------------------------------------------------------------------ closing


@contract
async def test_a_session_can_be_closed_while_it_reconnects(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await ensemble.cut(session)
    waiting = asyncio.ensure_future(session.zk.connected())
    await ensemble.heal(session)
    await ensemble.hold_requests(session)
    await ensemble.wait_for_held_request(session)
    async with asyncio.timeout(PATIENCE_S):
        await session.zk.close()
        assert not await waiting
    assert await session.zk.get("/") is Failure.SESSION_EXPIRED
    await ensemble.heal(session)
    await asyncio.sleep(0.5)
    assert session.notifications == [SessionSuspended()]


@contract
async def test_closing_answers_the_requests_a_silent_server_leaves_unanswered(ensemble: Ensemble) -> None:
    # Closing waits for two thirds of the timeout, after which a client gives up a silent server.
    session = await ensemble.open(session_timeout_ms=9_000)
    await session.zk.multi([Create("/a"), Create("/b")])
    await ensemble.hold_requests(session)
    under_way = send_many(session.zk)
    await ensemble.wait_for_held_request(session)
    async with asyncio.timeout(PATIENCE_S):
        await session.zk.close()
    assert await distinct_answers(under_way) <= {Failure.UNKNOWN, Failure.SESSION_EXPIRED}
    assert session.notifications == []


@contract
async def test_a_session_may_expire_while_it_is_closed(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    await session.zk.multi([Create("/a"), Create("/b"), Create("/mortal", ephemeral=True)])
    await ensemble.hold_answers(session)
    under_way = send_many(session.zk)
    closing = asyncio.ensure_future(session.zk.close())
    await asyncio.sleep(0)
    await ensemble.expire(session)
    async with asyncio.timeout(PATIENCE_S):
        await closing
    assert await distinct_answers(under_way) <= {Failure.UNKNOWN, Failure.SESSION_EXPIRED}
    assert session.notifications == []
    assert await (await ensemble.open()).zk.exists("/mortal") is Failure.NO_NODE
