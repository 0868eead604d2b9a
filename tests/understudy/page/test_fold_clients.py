"""Tests of `fold` on clients: what waits, what they read, and what they try."""

from __future__ import annotations

from tests.foundation.eventlog.lines import Logs
from tests.understudy.page.folding.fold import fold_all
from tests.understudy.page.folding.fold_state import (
    ClientPicture,
    EndedSend,
    Lookup,
    Reading,
    WaitingBatch,
    WaitingCommit,
)
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    Payload,
    ProcessStarted,
)
from understudy.history.reading.reader import read_lines


def client_after(*records: Payload) -> ClientPicture:
    """Fold the records of one client, the first at 1 s and each a millisecond after the one before."""
    logs = Logs()
    logs.at(999, "shop", ProcessStarted(role="client"))
    for number, payload in enumerate(records):
        logs.at(1000 + number, "shop", payload)
    return fold_all(read_lines(logs.lines).records).nodes["shop"].clients["shop"]


def began(
    *, api: str = "Produce", broker: str = "broker-1", records: int = 1, attempt: int = 1, offset: int = 5
) -> ClientRequestBegan:
    return ClientRequestBegan(
        api=api,
        client_id="shop",
        broker=broker,
        topic="orders",
        partition=0,
        records=records,
        attempt=attempt,
        offset=offset,
    )


def ended(
    error: str,
    *,
    api: str = "Produce",
    broker: str = "broker-1",
    records: int = 1,
    attempt: int = 1,
    again: bool = False,
    next_offset: int = -1,
) -> ClientRequestEnded:
    return ClientRequestEnded(
        api=api,
        client_id="shop",
        broker=broker,
        topic="orders",
        partition=0,
        error=error,
        records=records,
        attempt=attempt,
        is_sent_again=again,
        next_offset=next_offset,
    )


def waiting(*records: Payload) -> tuple[WaitingBatch, ...]:
    return client_after(*records).waiting.get("orders", {}).get(0, ())


def test_a_batch_waits_since_its_first_attempt_began() -> None:
    (batch,) = waiting(began(broker=""), began(), ended("", again=True), began(broker="broker-2", attempt=2))
    assert batch == WaitingBatch(records=1, since_us=1_000_000, attempt=2, broker="broker-2", error=None)


def test_a_batch_that_finds_no_leader_keeps_the_error_of_its_last_attempt() -> None:
    (batch,) = waiting(began(), ended("NOT_LEADER_OR_FOLLOWER", again=True), began(broker="", attempt=2))
    assert (batch.broker, batch.error) == ("", "NOT_LEADER_OR_FOLLOWER")


def test_an_answer_ends_the_oldest_batch_in_flight_with_as_many_records() -> None:
    client = client_after(began(records=2), began(records=3), began(records=3), ended("NONE", records=3))
    assert [each.since_us for each in client.waiting["orders"][0]] == [1_000_000, 1_002_000]
    assert client.sent["orders"][0] == EndedSend(records=3, offset=-1, error="NONE")


def test_a_batch_that_is_given_up_waits_no_more() -> None:
    client = client_after(began(), ended("", again=True), ended("", broker=""))
    assert client.waiting == {}
    assert client.sent["orders"][0].error == ""


def test_an_end_without_a_beginning_is_taken_as_in_older_logs() -> None:
    client = client_after(ended("NONE", records=4), ended("NONE", api="Fetch", records=4))
    assert client.sent["orders"][0].records == 4
    assert client.reads["orders"][0] == Reading(position=-1, broker="broker-1", error=None)


def test_a_position_follows_the_answers() -> None:
    read = began(api="Fetch")
    moved, failed = ended("NONE", api="Fetch", next_offset=9), ended("OFFSET_OUT_OF_RANGE", api="Fetch")
    assert client_after(read).reads["orders"][0].position == 5
    assert client_after(read, moved).reads["orders"][0].position == 9
    assert client_after(read, moved, failed).reads["orders"][0] == Reading(
        position=9, broker="broker-1", error="OFFSET_OUT_OF_RANGE"
    )


def test_a_connection_is_tried_since_the_first_attempt() -> None:
    def connection(state: str, reason: str = "") -> ClientConnection:
        return ClientConnection(client_id="shop", broker="broker-1", state=state, reason=reason)

    tried = (connection("connecting"), connection("failed", "refused"), connection("connecting"))
    found = client_after(*tried).connections["broker-1"]
    assert (found.state, found.since_us, found.reason) == ("connecting", 1_000_000, "refused")
    found = client_after(*tried, connection("connected")).connections["broker-1"]
    assert (found.state, found.since_us, found.reason) == ("connected", 1_003_000, "")


def test_a_lookup_ends_with_its_answer() -> None:
    ask, fail = began(api="Metadata"), ended("", api="Metadata")
    assert client_after(ask).lookup == Lookup(broker="broker-1", since_us=1_000_000, error=None)
    assert client_after(ask, fail).lookup == Lookup(broker="broker-1", since_us=1_000_000, error="")
    assert client_after(ask, fail, ended("NONE", api="Metadata", broker="broker-2")).lookup is None


def commits(*records: Payload) -> list[WaitingCommit]:
    return [client_after(*records).commits["orders"][0]]


def test_a_commit_waits_since_its_first_attempt_until_it_is_answered() -> None:
    ask, moved = began(api="OffsetCommit"), ended("NOT_COORDINATOR", api="OffsetCommit", again=True)
    assert commits(ask) == [WaitingCommit(offset=5, since_us=1_000_000, broker="broker-1", error=None)]
    assert commits(ask, moved)[0].error == "NOT_COORDINATOR"
    looks = began(api="OffsetCommit", broker="")
    assert commits(ask, moved, looks) == [
        WaitingCommit(offset=5, since_us=1_000_000, broker="", error="NOT_COORDINATOR")
    ]
    found = began(api="OffsetCommit", broker="broker-2")
    assert commits(ask, moved, looks, found) == [
        WaitingCommit(offset=5, since_us=1_000_000, broker="broker-2", error=None)
    ]
    assert client_after(ask, moved, looks, found, ended("NONE", api="OffsetCommit")).commits == {}
    assert client_after(ask, moved, ended("", api="OffsetCommit", broker="")).commits == {}


def test_a_commit_of_another_offset_is_another_one() -> None:
    failed = ended("NOT_COORDINATOR", api="OffsetCommit", again=True)
    (commit,) = commits(began(api="OffsetCommit"), failed, began(api="OffsetCommit", offset=9, broker=""))
    assert commit == WaitingCommit(offset=9, since_us=1_002_000, broker="", error=None)
