"""Tests of the member of a group against a coordinator that answers what a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import TypeVar

import pytest

from understudy.clusters.clients.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from understudy.clusters.clients.assignors.subscriptions import Subscription
from understudy.clusters.clients.client_events import NO_EVENTS, ClientEvents, Sending
from understudy.clusters.clients.connections import Connections, TopicsDescribed
from understudy.clusters.clients.group_member import GroupMember, MemberRefused, MemberSettings
from understudy.clusters.clients.member_events import (
    Assigned,
    CommitEnded,
    JoinBegan,
    JoinEnded,
    MemberEvent,
    OffsetsFetched,
    Released,
)
from understudy.clusters.clients.member_states import MemberMoved
from understudy.clusters.clients.producer import DeliveryOutcome
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)
V = TypeVar("V")

T = [TopicPartition("t", number) for number in range(4)]


class Script(Connections):
    """A coordinator, broker 1, that gives the answers of a script, in order; each is for one request.

    Attributes:
        asked: the requests, with the broker that each went to.
    """

    def __init__(self, answers: Iterable[Message | Exception], partitions: int = 4) -> None:
        self.answers = deque(answers)
        self.events = NO_EVENTS
        self.asked: list[tuple[int, Message]] = []
        self.partitions = partitions

    async def any_broker(self) -> int:
        return 0

    def know_address(self, broker: int, host: str, port: int) -> None:
        assert (broker, host, port) == (1, "b1", 9092)

    async def describe_topics(self, topics: Iterable[str]) -> TopicsDescribed:
        return TopicsDescribed(dict.fromkeys(topics, self.partitions), {})

    async def ask(self, broker: int, request: Message, version: int, response: type[R], *, wait_ms: int = 0) -> R:
        await asyncio.sleep(0)
        self.asked.append((broker, request))
        if isinstance(request, FindCoordinatorRequest) and not isinstance(self.answers[0], FindCoordinatorResponse):
            found = Coordinator(key=request.coordinator_keys[0], node_id=1, host="b1", port=9092)
            answer: Message | Exception = FindCoordinatorResponse(coordinators=(found,))
        else:
            answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, response)
        return answer

    def requests(self, kind: type[R]) -> list[R]:
        return [request for _, request in self.asked if isinstance(request, kind)]


class Ticking:
    """A clock that advances by 10 ms each time it is read."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def monotonic_ms(self) -> float:
        self.now_ms += 10
        return self.now_ms

    def wall_ms(self) -> float:
        return self.now_ms


class Fixture:
    """A member, its script and what it notes. Pauses between attempts take no time."""

    def __init__(self, *answers: Message | Exception, **settings: object) -> None:
        self.script = Script(answers)
        self.clock = Ticking()
        self.events: list[MemberEvent] = []
        self.moves: list[MemberMoved] = []
        chosen = {
            "group_id": "g",
            "topics": ("t",),
            "backoff_ms": 0,
            "heartbeat_interval_ms": 0,
            "join_timeout_ms": 2_000,
        }
        self.member = GroupMember(
            self.script,
            self.clock,
            MemberSettings(**(chosen | settings)),  # type: ignore[arg-type]  # keywords of a test
            self._note,
        )

    def _note(self, event: MemberEvent) -> None:
        if isinstance(event, MemberMoved):
            self.moves.append(event)
        else:
            self.events.append(event)

    @property
    def states(self) -> list[str]:
        """The states in which it has been, and its generation in each."""
        return [f"{moved.state.name} {moved.generation}" for moved in self.moves]

    def seen(self, kind: type) -> list[MemberEvent]:
        return [event for event in self.events if isinstance(event, kind)]


def run(work: Coroutine[object, object, V]) -> V:
    return asyncio.run(work)


def joined(generation: int = 1, member: str = "m-1", leader: str = "other", error: Errors = Errors.NONE) -> Message:
    return JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader,
        member_id=member,
    )


def synced(*partitions: TopicPartition, error: Errors = Errors.NONE) -> Message:
    return SyncGroupResponse(error_code=error, assignment=encode_assignment(partitions))


def beat(error: Errors = Errors.NONE) -> Message:
    return HeartbeatResponse(error_code=error)


def committed(*errors: Errors) -> Message:
    return OffsetCommitResponse(
        topics=(
            OffsetCommitResponseTopic(
                name="t",
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=number, error_code=error)
                    for number, error in enumerate(errors)
                ),
            ),
        )
    )


def test_new_member_joins_with_the_id_that_it_is_given() -> None:
    all_of = Fixture(joined(member="m-1", error=Errors.MEMBER_ID_REQUIRED), joined(), synced(T[1], T[0]))
    assert run(all_of.member.join())
    first, second = all_of.script.requests(JoinGroupRequest)
    assert (first.member_id, second.member_id) == ("", "m-1")
    (sync,) = all_of.script.requests(SyncGroupRequest)
    assert (sync.generation_id, sync.member_id, sync.assignments) == (1, "m-1", ())
    assert all_of.member.owned == (T[0], T[1])
    assert not all_of.member.needs_to_join
    assert [type(event) for event in all_of.events] == [JoinBegan, Assigned, JoinEnded]
    assert all_of.states == ["PREPARING_REBALANCE -1", "COMPLETING_REBALANCE 1", "STABLE 1"]
    assert (all_of.moves[-1].partitions, all_of.moves[-1].coordinator) == ((T[0], T[1]), 1)


def test_leader_assigns_for_all_members() -> None:
    others = tuple(
        JoinGroupResponseMember(member_id=name, metadata=encode_subscription("range", Subscription(("t",))))
        for name in ("m-1", "m-2")
    )
    unreadable = JoinGroupResponseMember(member_id="m-3", metadata=b"")
    answer = JoinGroupResponse(
        generation_id=4, protocol_name="range", leader="m-1", member_id="m-1", members=(*others, unreadable)
    )
    all_of = Fixture(answer, synced(T[0], T[1]))
    assert run(all_of.member.join())
    (sync,) = all_of.script.requests(SyncGroupRequest)
    given = {each.member_id: decode_assignment(each.assignment) for each in sync.assignments}
    assert given == {"m-1": (T[0], T[1]), "m-2": (T[2], T[3]), "m-3": ()}


def test_leader_that_is_to_skip_the_assignment_sends_none() -> None:
    answer = JoinGroupResponse(
        generation_id=4, protocol_name="range", leader="m-1", member_id="m-1", skip_assignment=True
    )
    all_of = Fixture(answer, synced(T[0]))
    assert run(all_of.member.join())
    assert all_of.script.requests(SyncGroupRequest)[0].assignments == ()


@pytest.mark.parametrize(
    "answer",
    [
        FindCoordinatorResponse(coordinators=(Coordinator(error_code=Errors.COORDINATOR_NOT_AVAILABLE),)),
        FindCoordinatorResponse(),
        joined(error=Errors.COORDINATOR_LOAD_IN_PROGRESS),
        joined(error=Errors.NOT_COORDINATOR),
        joined(error=Errors.REBALANCE_IN_PROGRESS),
        joined(error=Errors.UNKNOWN_MEMBER_ID),
        ConnectionFailed("b1 refuses"),
        ConnectionLost("b1 is gone"),
    ],
)
def test_member_tries_again(answer: Message | Exception) -> None:
    all_of = Fixture(answer, joined(), synced(T[0]))
    assert run(all_of.member.join())
    assert all_of.member.owned == (T[0],)


@pytest.mark.parametrize(
    ("error", "kept"),
    [(Errors.ILLEGAL_GENERATION, "m-1"), (Errors.UNKNOWN_MEMBER_ID, ""), (Errors.NOT_COORDINATOR, "m-1")],
)
def test_error_of_sync_makes_it_join_again(error: Errors, kept: str) -> None:
    all_of = Fixture(joined(), synced(error=error), joined(generation=2), synced(T[0]))
    assert run(all_of.member.join())
    again = all_of.script.requests(JoinGroupRequest)[1]
    assert again.member_id == kept
    looked = len(all_of.script.requests(FindCoordinatorRequest))
    assert looked == (2 if error is Errors.NOT_COORDINATOR else 1)


def test_join_gives_up_in_time() -> None:
    all_of = Fixture(*[joined(error=Errors.COORDINATOR_LOAD_IN_PROGRESS)] * 500)
    assert not run(all_of.member.join())
    assert all_of.member.needs_to_join
    (ended,) = all_of.seen(JoinEnded)
    assert isinstance(ended, JoinEnded)
    assert ended.reason == "COORDINATOR_LOAD_IN_PROGRESS"
    assert all_of.clock.now_ms < 3_000


@pytest.mark.parametrize("error", [Errors.GROUP_MAX_SIZE_REACHED, Errors.FENCED_INSTANCE_ID])
def test_group_that_refuses_a_member_ends_the_join(error: Errors) -> None:
    all_of = Fixture(joined(error=error))
    with pytest.raises(MemberRefused, match=error.name):
        run(all_of.member.join())
    assert isinstance(all_of.events[-1], JoinEnded)
    assert (all_of.states[-1], all_of.moves[-1].reason) == ("UNJOINED -1", error.name)


def rejoining(all_of: Fixture) -> None:
    async def twice() -> None:
        await all_of.member.join()
        await all_of.member.heartbeat()
        await all_of.member.join()

    run(twice())


def test_eager_member_gives_up_what_it_has_before_it_joins_again() -> None:
    all_of = Fixture(joined(), synced(*T[:2]), beat(Errors.REBALANCE_IN_PROGRESS), joined(2), synced(T[0]))
    rejoining(all_of)
    kinds = [type(event) for event in all_of.events]
    assert kinds == [JoinBegan, Assigned, JoinEnded, JoinBegan, Released, Assigned, JoinEnded]
    assert all_of.states[3:] == ["PREPARING_REBALANCE 1", "COMPLETING_REBALANCE 2", "STABLE 2"]
    assert (all_of.moves[3].partitions, all_of.moves[3].reason) == ((), "REBALANCE_IN_PROGRESS")
    again = all_of.script.requests(JoinGroupRequest)[1].protocols[0]
    assert decode_subscription("range", again.metadata).owned == ()


def test_cooperative_member_keeps_what_it_has_and_joins_once_more_to_give_up() -> None:
    def answer(generation: int) -> Message:
        return JoinGroupResponse(
            generation_id=generation, protocol_name="cooperative-sticky", leader="other", member_id="m-1"
        )

    all_of = Fixture(
        answer(1),
        synced(*T[:2]),
        beat(Errors.REBALANCE_IN_PROGRESS),
        answer(2),
        synced(T[0]),
        assignors=("cooperative-sticky",),
    )
    rejoining(all_of)
    assert all_of.seen(Released) == []
    again = all_of.script.requests(JoinGroupRequest)[1].protocols[0]
    subscription = decode_subscription("cooperative-sticky", again.metadata)
    assert (subscription.owned, subscription.generation) == ((T[0], T[1]), 1)
    assert all_of.member.owned == (T[0],)
    assert all_of.member.needs_to_join


def test_sticky_member_tells_the_leader_what_it_had() -> None:
    answer = JoinGroupResponse(generation_id=3, protocol_name="sticky", leader="other", member_id="m-1")
    all_of = Fixture(
        answer, synced(*T[:2]), beat(Errors.REBALANCE_IN_PROGRESS), answer, synced(T[0]), assignors=("sticky",)
    )
    rejoining(all_of)
    again = all_of.script.requests(JoinGroupRequest)[1].protocols[0]
    subscription = decode_subscription("sticky", again.metadata)
    assert (subscription.owned, subscription.generation) == ((T[0], T[1]), 3)


@pytest.mark.parametrize("error", [Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION])
def test_member_that_was_removed_owns_nothing(error: Errors) -> None:
    all_of = Fixture(joined(), synced(T[0]), beat(error))

    async def story() -> None:
        await all_of.member.join()
        await all_of.member.heartbeat()

    run(story())
    assert all_of.member.owned == ()
    assert all_of.member.needs_to_join
    assert all_of.member.generation == -1


def test_leader_joins_again_when_a_topic_has_grown() -> None:
    other = JoinGroupResponseMember(member_id="m-2", metadata=encode_subscription("range", Subscription(("u",))))
    answer = JoinGroupResponse(generation_id=1, protocol_name="range", leader="m-1", member_id="m-1", members=(other,))
    all_of = Fixture(answer, synced(T[0]), beat(), beat(), topics_interval_ms=0)

    async def story() -> list[bool]:
        await all_of.member.join()
        await all_of.member.heartbeat()
        before = all_of.member.needs_to_join
        all_of.script.partitions = 5
        await all_of.member.heartbeat()
        return [before, all_of.member.needs_to_join]

    assert run(story()) == [False, True]


@pytest.mark.parametrize(
    ("answers", "outcome", "is_acknowledged"),
    [
        ([committed(Errors.NONE)], DeliveryOutcome.ACKNOWLEDGED, True),
        ([committed(Errors.COORDINATOR_LOAD_IN_PROGRESS), committed(Errors.NONE)], DeliveryOutcome.ACKNOWLEDGED, True),
        ([ConnectionLost("gone"), committed(Errors.NONE)], DeliveryOutcome.ACKNOWLEDGED, True),
        ([committed(Errors.ILLEGAL_GENERATION)], DeliveryOutcome.REFUSED, False),
        ([committed(Errors.REBALANCE_IN_PROGRESS)], DeliveryOutcome.REFUSED, False),
        ([ConnectionLost("gone"), committed(Errors.UNKNOWN_MEMBER_ID)], DeliveryOutcome.UNKNOWN, False),
        ([committed(Errors.NOT_COORDINATOR), committed(Errors.UNKNOWN_MEMBER_ID)], DeliveryOutcome.UNKNOWN, False),
        ([committed(Errors.REQUEST_TIMED_OUT)] * 500, DeliveryOutcome.UNKNOWN, False),
        ([committed(Errors.COORDINATOR_LOAD_IN_PROGRESS)] * 500, DeliveryOutcome.REFUSED, False),
        ([ConnectionFailed("refused")] * 500, DeliveryOutcome.REFUSED, False),
    ],
)
def test_outcome_of_a_commit(
    answers: list[Message | Exception], outcome: DeliveryOutcome, is_acknowledged: bool
) -> None:
    all_of = Fixture(joined(), synced(T[0]), *answers, request_timeout_ms=1_000)

    async def story() -> bool:
        await all_of.member.join()
        return await all_of.member.commit({T[0]: 7})

    assert run(story()) is is_acknowledged
    (ended,) = all_of.seen(CommitEnded)
    assert isinstance(ended, CommitEnded)
    assert ended.outcomes == {T[0]: outcome}
    assert (ended.generation, ended.member_id, ended.offsets) == (1, "m-1", {T[0]: 7})
    sent = all_of.script.requests(OffsetCommitRequest)[0]
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (1, "m-1")
    assert all_of.clock.now_ms < 3_000


def test_commit_sends_only_what_is_not_decided_again() -> None:
    all_of = Fixture(
        joined(),
        synced(*T[:2]),
        committed(Errors.NONE, Errors.COORDINATOR_LOAD_IN_PROGRESS),
        OffsetCommitResponse(
            topics=(
                OffsetCommitResponseTopic(name="t", partitions=(OffsetCommitResponsePartition(partition_index=1),)),
            )
        ),
    )

    async def story() -> bool:
        await all_of.member.join()
        return await all_of.member.commit({T[0]: 7, T[1]: 8})

    assert run(story())
    second = all_of.script.requests(OffsetCommitRequest)[1].topics[0].partitions
    assert [(each.partition_index, each.committed_offset) for each in second] == [(1, 8)]


def ignore(event: MemberEvent) -> None:
    """Take no note."""


class SentCommit(Sending):
    """Notes what a member says of one offset that it commits."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def waits(self) -> None:
        self.notes.append("waits")

    def begins(self, broker: int) -> None:
        self.notes.append(f"begins {broker}")

    def ended(self, error: str, *, offset: int = -1, is_sent_again: bool = False) -> None:
        self.notes.append(f"{error or 'no answer'}{', again' if is_sent_again else ''}")

    def given_up(self) -> None:
        self.notes.append("given up")


class CommitEvents(ClientEvents):
    """Notes the commits of a member, by partition and offset."""

    def __init__(self) -> None:
        self.commits: dict[tuple[TopicPartition, int], SentCommit] = {}

    def committing(self, group: str, topic_partition: TopicPartition, offset: int) -> Sending:
        return self.commits.setdefault((topic_partition, offset), SentCommit())


@pytest.mark.parametrize(
    ("answers", "notes"),
    [
        ([committed()], ["begins 1", "UNKNOWN_SERVER_ERROR"]),
        (
            [committed(Errors.NOT_COORDINATOR), committed(Errors.NONE)],
            ["begins 1", "NOT_COORDINATOR, again", "waits", "begins 1", "NONE"],
        ),
        (
            [ConnectionFailed("refused"), committed(Errors.COORDINATOR_LOAD_IN_PROGRESS), committed(Errors.NONE)],
            [
                *("begins 1", "no answer, again", "waits"),
                *("begins 1", "COORDINATOR_LOAD_IN_PROGRESS, again", "begins 1", "NONE"),
            ],
        ),
        ([committed(Errors.ILLEGAL_GENERATION)], ["begins 1", "ILLEGAL_GENERATION"]),
    ],
)
def test_each_attempt_to_commit_an_offset_is_recorded(answers: list[Message | Exception], notes: list[str]) -> None:
    all_of = Fixture(joined(), synced(T[0]), *answers)
    events = all_of.script.events = CommitEvents()
    all_of.member = GroupMember(
        all_of.script, all_of.clock, MemberSettings(group_id="g", topics=("t",), backoff_ms=0), ignore
    )

    async def story() -> None:
        await all_of.member.join()
        await all_of.member.commit({T[0]: 7})

    run(story())
    assert {key: commit.notes for key, commit in events.commits.items()} == {(T[0], 7): notes}


def test_a_commit_that_finds_no_time_is_recorded_as_given_up() -> None:
    all_of = Fixture(joined(), synced(T[0]), *[committed(Errors.NOT_COORDINATOR)] * 500)
    events = all_of.script.events = CommitEvents()
    all_of.member = GroupMember(
        all_of.script,
        all_of.clock,
        MemberSettings(group_id="g", topics=("t",), backoff_ms=0, request_timeout_ms=500),
        ignore,
    )

    async def story() -> None:
        await all_of.member.join()
        await all_of.member.commit({T[0]: 7})

    run(story())
    (commit,) = events.commits.values()
    assert commit.notes[-2:] == ["NOT_COORDINATOR, again", "given up"]


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_offset_that_cannot_be_is_not_sent(offset: int) -> None:
    all_of = Fixture()
    with pytest.raises(ValueError, match=f"offset {offset} of t-0; expected 0 to"):
        run(all_of.member.commit({T[0]: offset}))
    assert all_of.script.asked == []


def fetched(offset: int = 3, error: Errors = Errors.NONE, of_group: Errors = Errors.NONE) -> Message:
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=offset, error_code=error)
    topic = OffsetFetchResponseTopics(name="t", partitions=(partition,))
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=(topic,), error_code=of_group),))


@pytest.mark.parametrize(
    "first",
    [
        fetched(of_group=Errors.NOT_COORDINATOR),
        fetched(error=Errors.UNSTABLE_OFFSET_COMMIT),
        OffsetFetchResponse(),
        ConnectionLost("gone"),
    ],
)
def test_offsets_are_fetched_again_until_there_is_an_answer(first: Message | Exception) -> None:
    all_of = Fixture(first, fetched(3))
    assert run(all_of.member.offsets.fetch([T[0]])) == {T[0]: 3}
    assert all_of.script.requests(OffsetFetchRequest)[0].groups[0].group_id == "g"
    assert len(all_of.seen(OffsetsFetched)) == 1


def test_fetch_gives_up_in_time() -> None:
    all_of = Fixture(*[fetched(of_group=Errors.COORDINATOR_LOAD_IN_PROGRESS)] * 500, request_timeout_ms=1_000)
    assert run(all_of.member.offsets.fetch([T[0]])) is None
    assert all_of.events == []


@pytest.mark.parametrize("answer", [LeaveGroupResponse(), ConnectionLost("gone")])
def test_member_leaves(answer: Message | Exception) -> None:
    all_of = Fixture(joined(), synced(T[0]), answer)

    async def story() -> None:
        await all_of.member.join()
        await all_of.member.leave()

    run(story())
    (request,) = all_of.script.requests(LeaveGroupRequest)
    assert [each.member_id for each in request.members] == ["m-1"]
    assert all_of.member.member_id == ""
    assert isinstance(all_of.events[-1], Released)
    assert all_of.states[-1] == "UNJOINED -1"


def test_static_member_keeps_its_place_when_it_ends() -> None:
    all_of = Fixture(joined(), synced(T[0]), beat(Errors.FENCED_INSTANCE_ID), instance_id="one")

    async def story() -> None:
        await all_of.member.join()
        with pytest.raises(MemberRefused):
            await all_of.member.heartbeat()
        await all_of.member.leave()

    run(story())
    assert all_of.script.requests(LeaveGroupRequest) == []
    assert {each.group_instance_id for each in all_of.script.requests(HeartbeatRequest)} == {"one"}
