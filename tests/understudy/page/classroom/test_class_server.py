"""A class on sockets: 200 phones at once, streams that end, and what the teacher's page gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.understudy.page.classroom.http_phone import HttpPhone
from tests.understudy.page.classroom.steps import BEGIN, MOMENT, PREDICT
from understudy.clusters.cluster import ClusterError
from understudy.page.classroom.class_server import ClassServer
from understudy.page.classroom.phone_app import MOST_STREAMS_OF_A_PHONE

PHONES = 200


@pytest.fixture
def server() -> Iterator[ClassServer]:
    with ClassServer("The zombie", ("127.0.0.1", 0)) as server:
        yield server


def document(server: ClassServer) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(server.document())
    return loaded


def in_loop(phones: Coroutine[Any, Any, None]) -> None:
    asyncio.run(phones)


def test_200_phones_follow_vote_at_once_and_see_the_same_counts(server: ClassServer) -> None:
    async def run() -> None:
        server.show(BEGIN)
        phones = [HttpPhone(server) for _ in range(PHONES)]
        assert {each.status for each in await asyncio.gather(*(phone.join() for phone in phones))} == {200}
        streams = await asyncio.gather(*(phone.follow() for phone in phones))
        begun = await asyncio.gather(*(stream.next() for stream in streams))
        assert {each["step"]["headline"] for each in begun} == {"Who wins?"}
        server.show(PREDICT)
        asked = await asyncio.gather(*(stream.next() for stream in streams))
        assert {each["is_open"] for each in asked} == {True}
        for shift in (1, 0):  # each phone changes its vote
            votes = [phone.vote("predict", (number + shift) % 3) for number, phone in enumerate(phones)]
            assert {each.status for each in await asyncio.gather(*votes)} == {200}
        assert document(server)["phones"] == PHONES
        assert document(server)["polls"]["predict"] == {
            "question": json.loads(json.dumps(document(server)["polls"]["predict"]["question"])),
            "answered": PHONES,
            "tally": None,
        }
        server.reveal("predict")
        for number, stream in enumerate(streams):
            shown = await stream.next()
            assert (shown["tally"]["counts"], shown["yours"]) == ([67, 67, 66], number % 3)
            stream.writer.close()

    in_loop(run())


def test_a_phone_has_a_bounded_number_of_streams_and_gets_them_back(server: ClassServer) -> None:
    async def run() -> None:
        phone = HttpPhone(server)
        await phone.join()
        streams = [await phone.follow() for _ in range(MOST_STREAMS_OF_A_PHONE)]
        for stream in streams:
            await stream.next()
        assert (await phone.follow()).status == 503
        streams[0].writer.close()
        while (again := await phone.follow()).status == 503:
            await asyncio.sleep(0.01)
        assert (await again.next())["title"] == "The zombie"
        for stream in (*streams, again):
            stream.writer.close()

    in_loop(run())


def test_streams_end_with_the_class(server: ClassServer) -> None:
    async def run() -> None:
        phone = HttpPhone(server)
        await phone.join()
        stream = await phone.follow()
        await stream.next()
        await asyncio.get_running_loop().run_in_executor(None, server.close)
        assert await stream.ends()
        stream.writer.close()

    in_loop(run())
    with pytest.raises(ClusterError, match="not served any more"):
        server.show(MOMENT)


def test_the_counts_stay_after_the_end(server: ClassServer) -> None:
    async def run() -> None:
        phone = HttpPhone(server)
        await phone.join()
        server.show(PREDICT)
        await phone.vote("predict", 2)

    in_loop(run())
    server.close()
    phones, [counts] = server.counts()
    assert (phones, counts.tally.counts) == (1, (0, 0, 1))


def test_the_page_of_the_teacher_gets_the_address_and_the_code(server: ClassServer) -> None:
    shown = document(server)
    assert f"{shown['address']}#{shown['code']}" == server.url
    assert len(shown["code"]) == 6
    assert server.qr_code().startswith(b"<svg xmlns=")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_an_address_that_stands_for_every_one_is_refused(host: str) -> None:
    with pytest.raises(ClusterError, match="the class cannot be served on"):
        ClassServer("The zombie", (host, 0))


def test_an_address_of_another_machine_is_refused_with_the_option() -> None:
    with pytest.raises(ClusterError, match=r"the class 192\.0\.2\.1:0 cannot be opened: .*--class"):
        ClassServer("The zombie", ("192.0.2.1", 0))
