"""What a client of a load writes into its event log."""

from __future__ import annotations

import msgspec

from understudy.clusters.clients.client_events import NOT_ANSWERED, ClientLog, EventsOfClient
from understudy.clusters.clients.member_states import MemberMoved, MemberState
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    MemberTransition,
    Payload,
    ProcessExiting,
)
from understudy.history.narrator import describe
from understudy.history.reading.lines import decode_record

PARTITION = TopicPartition("orders", 0)


class SetClock:
    """A clock that stands still until a test moves it."""

    now_ms = 5_000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return self.now_ms


class Client:
    """A client, and what it has written."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.lines: list[bytes] = []
        self.closed = 0
        log = EventLog(run="run", node="client-1", incarnation=1, clock=self.clock, write=self.lines.append)
        self.events = EventsOfClient("client-1", ClientLog(log, self._close), self.clock)

    def _close(self) -> None:
        self.closed += 1

    @property
    def written(self) -> list[Payload]:
        return [decode_record(line).data for line in self.lines]

    @property
    def sentences(self) -> list[str | None]:
        return [describe(decode_record(line)) for line in self.lines]

    def tries(self, *, after_ms: float, reason: str = "refused") -> None:
        """Connect to broker 1 once, after some time."""
        self.clock.now_ms += after_ms
        self.events.connecting(1)
        self.events.connected(1, reason)


def test_a_batch_is_written_when_it_is_sent_and_when_it_is_acknowledged() -> None:
    client = Client()
    sending = client.events.sending(PARTITION, 2)
    sending.begins(3)
    client.clock.now_ms += 12.5
    sending.ended("NONE", offset=7)
    begun = ClientRequestBegan(
        api="Produce", client_id="client-1", broker="broker-3", topic="orders", partition=0, records=2, attempt=1
    )
    ended = ClientRequestEnded(
        api="Produce",
        client_id="client-1",
        broker="broker-3",
        topic="orders",
        partition=0,
        error="NONE",
        offset=7,
        records=2,
        attempt=1,
        took_ms=12.5,
    )
    assert client.written == [begun, ended]


def test_a_batch_without_a_leader_waits_and_is_given_up() -> None:
    client = Client()
    sending = client.events.sending(PARTITION, 1)
    for _ in range(3):
        sending.waits()
    sending.given_up()
    assert client.sentences == [
        "has 1 record for orders-0, and cannot send to a leader yet",
        "gives up 1 record for orders-0: LEADER_NOT_AVAILABLE",
    ]


def test_attempts_that_repeat_one_another_are_written_once_a_second() -> None:
    client = Client()
    sending = client.events.sending(PARTITION, 1)
    for _ in range(25):
        sending.begins(1)
        sending.ended("NOT_ENOUGH_REPLICAS", is_sent_again=True)
        client.clock.now_ms += 100
    assert [each.attempt for each in client.written if isinstance(each, ClientRequestBegan)] == [1, 11, 21]
    assert len(client.written) == 6
    sending.begins(1)
    sending.ended("NONE", offset=4)
    last = client.written[-1]
    assert isinstance(last, ClientRequestEnded)
    assert (last.attempt, last.error) == (26, "NONE")
    assert len(client.written) == 7, "the beginning of the last attempt is left out, its end is not"


def test_an_attempt_at_another_broker_is_always_written() -> None:
    client = Client()
    sending = client.events.sending(PARTITION, 1)
    for broker in (1, 2, 1):
        sending.begins(broker)
        sending.ended(NOT_ANSWERED, is_sent_again=True)
    brokers = [each.broker for each in client.written if isinstance(each, ClientRequestBegan)]
    assert brokers == ["broker-1", "broker-2", "broker-1"]


def test_an_offset_is_written_while_its_commit_waits() -> None:
    client = Client()
    commit = client.events.committing("readers", PARTITION, 12)
    commit.waits()
    commit.begins(3)
    commit.ended("NOT_COORDINATOR", is_sent_again=True)
    commit.waits()
    for _ in range(5):
        commit.begins(2)
        commit.ended("COORDINATOR_LOAD_IN_PROGRESS", is_sent_again=True)
    commit.begins(2)
    commit.ended("NONE")
    looks = "has offset 12 of orders-0 to commit, and looks for the coordinator"
    assert client.sentences == [
        looks,
        "begins to commit offset 12 of orders-0 at broker-3",
        "commits offset 12 of orders-0 at broker-3 for group readers: NOT_COORDINATOR",
        looks,
        "begins to commit offset 12 of orders-0 at broker-2",
        "commits offset 12 of orders-0 at broker-2 for group readers: COORDINATOR_LOAD_IN_PROGRESS",
        "commits offset 12 of orders-0 at broker-2 for group readers: stored",
    ]
    assert client.written[0] == ClientRequestBegan(
        api="OffsetCommit", client_id="client-1", broker="", topic="orders", partition=0, offset=12
    )
    assert client.written[2] == ClientRequestEnded(
        api="OffsetCommit",
        client_id="client-1",
        broker="broker-3",
        topic="orders",
        partition=0,
        error="NOT_COORDINATOR",
        offset=12,
        group="readers",
        is_sent_again=True,
    )


def test_a_commit_without_a_coordinator_is_given_up() -> None:
    client = Client()
    commit = client.events.committing("readers", PARTITION, 12)
    commit.waits()
    commit.given_up()
    assert client.sentences[-1] == (
        "gives up the commit of offset 12 of orders-0 for group readers: COORDINATOR_NOT_AVAILABLE"
    )


def test_connections_that_fail_again_are_written_once_a_second() -> None:
    client = Client()
    for after_ms in (0, 100, 100, 900):
        client.tries(after_ms=after_ms)
    states = [each.state for each in client.written if isinstance(each, ClientConnection)]
    assert states == ["connecting", "failed"] * 2
    client.tries(after_ms=50, reason="")
    assert client.sentences[-1] == "is connected to broker-1"


def test_a_lookup_is_written_with_its_answer() -> None:
    client = Client()
    client.events.asks("broker-1")
    client.clock.now_ms += 2_000
    client.events.asked("broker-1", NOT_ANSWERED)
    client.events.asks("broker-2")
    client.events.asked("broker-2")
    assert client.sentences == [
        "asks broker-1 for metadata",
        "is given no metadata by broker-1",
        "asks broker-2 for metadata",
        "is given metadata by broker-2",
    ]


def test_a_fetch_is_written_if_it_brings_records_or_an_error_or_ends_one() -> None:
    client = Client()
    events = client.events
    for first, records, position, error in (
        (-1, 0, 5, "NONE"),
        (5, 3, 8, "NONE"),
        (-1, 0, 8, "NONE"),
        (-1, 0, 8, "NOT_LEADER_OR_FOLLOWER"),
        (-1, 0, 8, "NOT_LEADER_OR_FOLLOWER"),
        (-1, 0, 8, "NONE"),
    ):
        events.reads(PARTITION, 8 if records == 0 and client.lines[1:] else 5, 1)
        events.has_read(PARTITION, first, records, position, error)
    assert client.sentences == [
        "begins to read orders-0 at broker-1, from offset 5",
        "is given 3 records of orders-0 at broker-1, from offset 5",
        "is given nothing of orders-0 at broker-1: NOT_LEADER_OR_FOLLOWER",
        "is given 0 records of orders-0 at broker-1",
    ]
    events.reads(PARTITION, 8, None)
    events.reads(PARTITION, 8, 2)
    assert client.sentences[4:] == [
        "finds no leader of orders-0, which it reads from offset 8",
        "begins to read orders-0 at broker-2, from offset 8",
    ]


def test_a_position_that_moves_without_records_is_written() -> None:
    client = Client()
    client.events.reads(PARTITION, 5, 1)
    client.events.has_read(PARTITION, -1, 0, 9)
    assert [each.next_offset for each in client.written if isinstance(each, ClientRequestEnded)] == [9]


def test_the_states_of_a_member_are_written_when_they_change() -> None:
    client = Client()
    note = client.events.member("readers")
    joins = MemberMoved(1.0, MemberState.PREPARING_REBALANCE, -1, "", None, ())
    stable = MemberMoved(9.0, MemberState.STABLE, 2, "m-1", 3, (PARTITION,))
    for moved in (joins, joins._replace(at_ms=2.0), joins._replace(reason="NOT_COORDINATOR"), stable):
        note(moved)
    assert client.sentences == [
        "joins group readers",
        "joins group readers: NOT_COORDINATOR",
        "owns orders-0 in generation 2 of group readers",
    ]
    assert client.written[-1] == MemberTransition(
        client_id="client-1",
        group="readers",
        member_id="m-1",
        target="STABLE",
        generation=2,
        coordinator=3,
        partitions=(("orders", 0),),
    )


def test_the_end_of_a_client_is_its_last_record() -> None:
    client = Client()
    client.events.close()
    assert (client.written, client.closed) == ([ProcessExiting(reason="the client has ended")], 1)
    assert msgspec.json.decode(client.lines[0])["seq"] == 1
