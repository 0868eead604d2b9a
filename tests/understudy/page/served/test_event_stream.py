"""The stream of events: whole, resumed, and slow readers that cost nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message

from tests.foundation.eventlog.lines import Logs
from tests.understudy.asgi import HOST, OWN, TOKEN, call, scope_of
from understudy.foundation.eventlog.records import StepReached
from understudy.history.reading.reader import read_lines
from understudy.page.recorded.runs import PageRun
from understudy.page.served import app as app_module
from understudy.page.served import event_stream
from understudy.page.served.app import application
from understudy.page.served.changes import Changes
from understudy.page.served.live import LiveRun


class Events:
    """The events that a reader has received, and the lines that are comments."""

    def __init__(self, text: str) -> None:
        self.comments: list[str] = []
        self.steps: list[str] = []
        self.ids: list[int] = []
        self.sizes: list[int] = []
        self.has_ended = False
        for event in text.split("\n\n"):
            lines = re.split(r"\r\n|\r|\n", event) if event else []
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            self.comments += [line for line in lines if line.startswith(":")]
            if fields.get("event") == "ended":
                self.has_ended = True
            elif "id" in fields:
                records = json.loads(fields["data"])
                self.ids.append(int(fields["id"]))
                self.sizes.append(len(records))
                self.steps += [record[8]["step"] for record in records]


def write(run: PageRun, first: int, count: int, text: str = "step") -> None:
    logs = Logs()
    for number in range(first, first + count):
        logs.at(1000 + number, "broker-1", StepReached(step=f"{text} {number}"))
    run.add(read_lines(logs.lines).records)


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    run = LiveRun(tmp_path, "run-1")
    write(run, 0, 7)
    return run


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def app(run: LiveRun, changes: Changes) -> ASGIApp:
    return application(run, changes, folder=None, hosts=frozenset({HOST}), token=TOKEN)


def steps(*numbers: int) -> list[str]:
    return [f"step {number}" for number in numbers]


async def read(
    app: ASGIApp, until: Callable[[Events], bool], *, path: str = "/events", meanwhile: Awaitable[None] | None = None
) -> Events:
    """Read events until `until` holds, then disconnect."""
    received: list[str] = []
    leave = asyncio.Event()

    async def receive() -> Message:
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        received.append(message.get("body", b"").decode())
        if until(Events("".join(received))):
            leave.set()

    async with asyncio.timeout(30):
        await asyncio.gather(app(scope_of("GET", path), receive, send), meanwhile or asyncio.sleep(0))
    return Events("".join(received))


def test_a_stream_begins_after_a_position_and_goes_on(app: ASGIApp, run: LiveRun, changes: Changes) -> None:
    async def grow() -> None:
        await asyncio.sleep(0)
        write(run, 7, 2)
        changes.notify()

    found = asyncio.run(read(app, lambda events: 9 in events.ids, path="/events?after=5", meanwhile=grow()))
    assert found.steps == steps(5, 6, 7, 8)


def test_the_last_id_of_a_reader_counts_more_than_the_address(app: ASGIApp, run: LiveRun) -> None:
    run.is_live = False
    answer = call(app, "/events?after=1", {**OWN, "last-event-id": "6"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert Events(answer.body.decode()).steps == steps(6)


def test_an_event_has_a_bounded_number_of_records(app: ASGIApp, run: LiveRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MOST_IN_AN_EVENT", 3)
    run.is_live = False
    found = Events(call(app, "/events").body.decode())
    assert (found.ids, found.sizes, found.has_ended) == ([3, 6, 7], [3, 3, 1], True)
    assert found.steps == steps(*range(7))


def test_a_silent_stream_has_heartbeats(app: ASGIApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.01)
    found = asyncio.run(read(app, lambda events: len(events.comments) == 2, path="/events?after=7"))
    assert found.comments == [": no new record"] * 2


def test_the_end_of_the_run_is_an_event_and_that_of_the_server_is_not(
    app: ASGIApp, run: LiveRun, changes: Changes
) -> None:
    async def end_server() -> None:
        await asyncio.sleep(0)
        changes.close()

    assert not asyncio.run(read(app, lambda events: False, meanwhile=end_server())).has_ended
    run.is_live = False
    assert asyncio.run(read(app, lambda events: False)).has_ended


def test_names_with_newlines_stay_in_their_event(app: ASGIApp, run: LiveRun) -> None:
    write(run, 7, 1, "a\n\nevent: ended\ndata: {}\n\nid: 1\r\rretry: 1\n\u2028")
    run.is_live = False
    found = Events(call(app, "/events?after=7").body.decode())
    assert found.ids == [8]
    assert found.steps == ["a\n\nevent: ended\ndata: {}\n\nid: 1\r\rretry: 1\n\u2028 7"]


def test_a_slow_reader_holds_nothing_back_and_loses_nothing(app: ASGIApp, run: LiveRun, changes: Changes) -> None:
    """While its connection accepts nothing, no event is made for it; then it gets the rest."""
    received: list[str] = []
    blocked = asyncio.Event()

    async def play() -> None:
        accepts = asyncio.Event()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            received.append(message.get("body", b"").decode())
            if "id: 7" in received[-1]:
                blocked.set()
                await accepts.wait()

        slow = asyncio.ensure_future(app(scope_of("GET", "/events"), receive, send))
        await blocked.wait()
        for number in range(7, 107):
            write(run, number, 1)
            changes.notify()
            await asyncio.sleep(0)
        fast = await read(app, lambda events: 107 in events.ids)
        assert fast.steps == steps(*range(107))
        assert Events("".join(received)).ids == [7]
        run.is_live = False
        accepts.set()
        async with asyncio.timeout(30):
            await slow

    asyncio.run(play())
    assert Events("".join(received)).ids == [7, 107]
    assert Events("".join(received)).steps == steps(*range(107))


def test_so_many_readers_may_follow_a_run(run: LiveRun, changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MOST_READERS", 1)
    app = application(run, changes, folder=None, hosts=frozenset({HOST}), token=TOKEN)

    async def second() -> None:
        refused: list[Message] = []

        async def receive() -> Message:
            raise AssertionError

        async def send(message: Message) -> None:
            refused.append(message)

        await asyncio.sleep(0)
        await app(scope_of("GET", "/events"), receive, send)
        assert refused[0]["status"] == 503
        assert json.loads(refused[1]["body"]) == {"error": "1 pages follow this run already; close one"}
        changes.close()

    asyncio.run(read(app, lambda events: False, meanwhile=second()))
    run.is_live = False
    assert call(app, "/events").status == 200


def test_a_reader_that_leaves_makes_room(run: LiveRun, changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MOST_READERS", 1)
    app = application(run, changes, folder=None, hosts=frozenset({HOST}), token=TOKEN)

    async def play() -> None:
        for _ in range(3):
            assert (await read(app, lambda events: 7 in events.ids)).steps == steps(*range(7))

    asyncio.run(play())
