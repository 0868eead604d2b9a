"""The fence, lost answers, conflicts, and what the event log says of all that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.eventlog.fences import Fence
from foundation.zk.client import (
    MAX_REQUEST_BYTES,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    SetData,
    Updated,
    WatchKind,
    request_bytes,
)
from foundation.zk.kafka_zk_client import ControllerMoved, KafkaZkClient, TopicAssignment, ZooKeeperFailure
from foundation.zk.transactions import MAX_IN_FLIGHT, MAX_LOST_ANSWERS, MAX_OPS, Fenced
from tests.contracts.subject import Ground, Subject, contract
from tests.foundation.zk.store import Store, controller, led_by, must, partitions, store

STATE = {TopicPartition("t", 0): led_by(2, leader_epoch=1)}
TOPIC_ID = TopicId("GKx8qQpIQTi1jsQC9Pe1UQ")


# ------------------------------------------------------------------ the fence

FENCED: dict[str, Callable[[KafkaZkClient, int], Awaitable[object]]] = {
    "update": lambda zk, version: zk.states.update(STATE, 1, version),
    "create": lambda zk, version: zk.states.create({TopicPartition("t", 1): led_by(1)}, 1, version),
    "topic ids": lambda zk, version: zk.topics.set_ids({"t": TOPIC_ID}, version),
    "assignment": lambda zk, version: zk.topics.overwrite_assignments({"t": TopicAssignment(TOPIC_ID, {})}, version),
    "reassignment": lambda zk, version: zk.reassignments.write({}, version),
    "reassignment done": lambda zk, version: zk.reassignments.delete(version),
    "controller": lambda zk, version: zk.controller.delete(version),
    "deletions": lambda zk, version: zk.topic_deletions.unmark(["t"], version),
    "preferred": lambda zk, version: zk.preferred_elections.delete(version),
    "log dirs": lambda zk, version: zk.log_dir_events.delete_all(version),
    "isr changes": lambda zk, version: zk.isr_changes.delete_all(version),
}


async def tree(ground: Ground) -> dict[str, object]:
    """Every znode with its data and version."""
    zk = (await ground.open()).zk
    found: dict[str, object] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in must(await zk.children(folder or "/")).names:
            node = must(await zk.get(f"{folder}/{name}"))
            found[f"{folder}/{name}"] = (node.data, node.stat.version)
            folders.append(f"{folder}/{name}")
    return found


@pytest.mark.spec("EL-13", "EL-14", "ZC-5")
@pytest.mark.parametrize("method", FENCED)
def test_no_write_of_a_controller_that_was_deposed_gets_through(subject: Subject, method: str) -> None:
    async def case(ground: Ground) -> None:
        opened, version = await controller(ground)
        await opened.zk.topics.create("t", None, {})
        await opened.zk.states.create({TopicPartition("t", 0): led_by(1)}, 1, version)
        for path in (
            "/admin/delete_topics/t",
            "/admin/preferred_replica_election",
            "/log_dir_event_notification/log_dir_event_1",
            "/isr_change_notification/isr_change_1",
        ):
            await opened.raw.write(Create(path))
        await opened.raw.write(SetData("/controller_epoch", b"2", version))
        before = await tree(ground)
        with pytest.raises(ControllerMoved):
            await FENCED[method](opened.zk, version)
        assert await tree(ground) == before
        hit = opened.records("FenceHit")[-1]
        assert (hit["fence"], hit["offered"], hit["known"]) == ("zk.controller-epoch", version, version + 1)
        assert not hit.get("switched_off")
        assert opened.fences.hits[Fence.ZK_CONTROLLER_EPOCH] == 1

    subject.run(case)


@contract
async def test_a_fence_that_is_switched_off_lets_the_deposed_write_and_says_so(ground: Ground) -> None:
    opened, version = await controller(ground, switched_off=[Fence.ZK_CONTROLLER_EPOCH])
    await opened.zk.topics.create("t", None, {})
    await opened.zk.states.create({TopicPartition("t", 0): led_by(1)}, 1, version)
    assert opened.records("FenceHit") == []
    await opened.raw.write(SetData("/controller_epoch", b"2", version))
    finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    await opened.zk.states.update(STATE, 1, version, finished.update)
    assert finished == {TopicPartition("t", 0): led_by(2, leader_epoch=1, partition_epoch=1)}
    (hit,) = opened.records("FenceHit")
    assert (hit["switched_off"], hit["known"]) == (True, version + 1)
    assert not opened.records("ZkWrite")[-1]["fenced"]


@contract
async def test_without_an_epoch_there_is_no_controller_to_be(ground: Ground) -> None:
    opened, version = await controller(ground)
    await opened.raw.write(Delete("/controller_epoch"))
    with pytest.raises(ZooKeeperFailure, match="/controller_epoch"):
        await opened.zk.states.update(STATE, 1, version)


@contract
async def test_the_batches_behind_a_refused_one_are_not_sent(ground: Ground) -> None:
    opened, version = await controller(ground)
    opened.below.sent.clear()
    states = {partition: led_by(1) for partition in partitions(10_000)}
    with pytest.raises(ControllerMoved):
        await opened.zk.states.update(states, 1, version + 5)
    assert len(opened.below.sent) == 10, "what was in flight when the first refusal came"


# ------------------------------------------------------------------ lost answers


@pytest.mark.spec("R-5", "ZC-2")
@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests"])
@pytest.mark.parametrize("times", [1, 3])
def test_an_update_whose_answer_is_lost_counts_once(subject: Subject, lost: str, times: int) -> None:
    async def case(ground: Ground) -> None:
        opened, version = await controller(ground)
        await opened.zk.topics.create("t", None, {})
        await opened.zk.states.create({partition: led_by(1) for partition in partitions(1_000)}, 1, version)
        await opened.raw.write(SetData(f"/brokers/topics/t/partitions/{7}/state", b"changed"))
        setattr(opened.below, lost, times)
        wanted = {partition: led_by(2, leader_epoch=1) for partition in partitions(1_000)}
        finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
        conflicts = await opened.zk.states.update(wanted, 1, version, finished.update)
        assert conflicts == (TopicPartition("t", 7),)
        assert set(finished.values()) == {led_by(2, leader_epoch=1, partition_epoch=1)}
        assert len(finished) == 999

    subject.run(case)


@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests"])
def test_creations_whose_answer_is_lost_are_created(subject: Subject, lost: str) -> None:
    async def case(ground: Ground) -> None:
        opened, version = await controller(ground)
        await opened.zk.topics.create("t", None, {})
        setattr(opened.below, lost, 2)
        states = {partition: led_by(1) for partition in partitions(3)}
        finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
        await opened.zk.states.create(states, 1, version, finished.update)
        assert finished == states

    subject.run(case)


@pytest.mark.spec("R-5")
@contract
async def test_an_update_survives_a_real_cut(ground: Ground) -> None:
    opened, version = await controller(ground)
    observer = await ground.open()
    await opened.zk.topics.create("t", None, {})
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(20)}, 1, version)
    await observer.zk.exists("/brokers/topics/t/partitions/19/state", watch=True)
    await ground.hold_answers(opened.session)
    wanted = {partition: led_by(2, leader_epoch=1) for partition in partitions(20)}
    finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    update = asyncio.ensure_future(opened.zk.states.update(wanted, 1, version, finished.update))
    await observer.hears_watch("/brokers/topics/t/partitions/19/state", WatchKind.CHANGED)
    await ground.cut(opened.session)
    await asyncio.sleep(0.2)
    assert not update.done()
    await ground.heal(opened.session)
    assert await update == ()
    assert set(finished.values()) == {led_by(2, leader_epoch=1, partition_epoch=1)}
    assert len(finished) == 20


@contract
async def test_single_writes_are_adopted_where_zookeeper_holds_what_was_meant(ground: Ground) -> None:
    opened = await store(ground)
    below, write = opened.below, opened.transactions.write
    below.lose_answers = 1
    assert await write(Create("/a", b"0"), "test") == Created("/a")
    below.lose_answers = 1
    updated = await write(SetData("/a", b"1", 0), "test")
    assert isinstance(updated, Updated)
    assert updated.stat.version == 1
    below.lose_answers = 1
    assert await write(Delete("/a", 1), "test") == Deleted()
    assert await opened.raw.exists("/a") is Failure.NO_NODE


@contract
async def test_a_conflict_with_somebody_else_stays_one_whatever_was_lost(ground: Ground) -> None:
    opened = await store(ground)
    await opened.raw.write(Create("/a", b"theirs"))
    for op, failure in (
        (Create("/a", b"ours"), Failure.NODE_EXISTS),
        (SetData("/a", b"ours", 5), Failure.BAD_VERSION),
        (Delete("/a", 5), Failure.BAD_VERSION),
    ):
        opened.below.lose_requests = 1
        assert await opened.transactions.write(op, "test") is failure
    assert must(await opened.raw.get("/a")).data == b"theirs"


@contract
async def test_an_ephemeral_is_adopted_only_by_the_session_that_owns_it(ground: Ground) -> None:
    """The same bytes are not the same znode: another's vanishes with the other, and a lasting one does not vanish at
    all."""
    opened, other = await store(ground), await ground.open()
    await other.zk.write(Create("/theirs", b"x", ephemeral=True))
    await other.zk.write(Create("/lasting", b"x"))
    for create in (
        Create("/theirs", b"x", ephemeral=True),
        Create("/theirs", b"x"),
        Create("/lasting", b"x", ephemeral=True),
    ):
        opened.below.lose_requests = 1
        assert await opened.transactions.write(create, "test") is Failure.NODE_EXISTS
    opened.below.lose_answers = 1
    assert await opened.transactions.write(Create("/ours", b"x", ephemeral=True), "test") == Created("/ours")


@contract
async def test_reads_are_repeated_and_only_what_was_lost(ground: Ground) -> None:
    opened = await store(ground)
    await opened.raw.write(Create("/a", b"x"))
    opened.below.lose_requests = 3
    assert must(await opened.transactions.get("/a")).data == b"x"
    opened.below.lose_requests = 3
    assert must(await opened.transactions.exists("/a")).version == 0
    opened.below.lose_requests = 3
    assert must(await opened.transactions.children("/a")).names == ()
    opened.below.lose_requests = 1
    found = await opened.transactions.get_many(["/a", "/b", "/a", "/b"])
    assert [node if isinstance(node, Failure) else node.data for node in found] == [b"x", Failure.NO_NODE] * 2


@contract
async def test_answers_that_keep_being_lost_are_a_failure_not_an_endless_wait(ground: Ground) -> None:
    opened, version = await controller(ground)
    for attempt in (
        lambda: opened.transactions.get("/a"),
        lambda: opened.transactions.get_many(["/a"]),
        lambda: opened.transactions.write(Create("/a"), "test"),
        lambda: opened.transactions.multi([Create("/a")], "test"),
        lambda: opened.zk.states.update(STATE, 1, version),
    ):
        opened.below.lose_requests = MAX_LOST_ANSWERS + 1
        with pytest.raises(ZooKeeperFailure) as failed:
            await attempt()
        assert failed.value.failure is Failure.UNKNOWN
        opened.below.lose_requests = 0


# ------------------------------------------------------------------ conflicts


@contract
async def test_conflicts_that_a_look_does_not_show_end_one_by_one(ground: Ground) -> None:
    """A missing parent is not seen at the child; after a few rounds the rest goes out alone."""
    opened, version = await controller(ground)
    ops = [op for number in range(8) for op in (Create(f"/missing-{number}/child"), Create(f"/there-{number}"))]
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [op for number in range(8) for op in (Failure.NO_NODE, Created(f"/there-{number}"))]


@contract
async def test_what_is_missing_fails_all_that_is_below_it_at_once(ground: Ground) -> None:
    opened, version = await controller(ground)
    opened.below.sent.clear()
    ops = [*[Create(f"/missing/{number}") for number in range(100)], Create("/there")]
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [*[Failure.NO_NODE] * 100, Created("/there")]
    assert len(opened.below.sent) == 2


@pytest.mark.spec("ZC-5")
@contract
async def test_transactions_are_split_by_size_and_what_is_too_large_fails_alone(ground: Ground) -> None:
    opened, version = await controller(ground)
    opened.below.sent.clear()
    third = b"x" * (MAX_REQUEST_BYTES // 3)
    ops = [Create(f"/{number}", third) for number in range(5)]
    ops.insert(2, Create("/too-large", b"x" * MAX_REQUEST_BYTES))
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [Created("/0"), Created("/1"), Failure.TOO_LARGE, Created("/2"), Created("/3"), Created("/4")]
    assert all(sum(map(request_bytes, sent)) < MAX_REQUEST_BYTES for sent in opened.below.sent if len(sent) > 2)


@contract
async def test_a_transaction_that_only_the_chroot_makes_too_large_goes_out_in_pieces(ground: Ground) -> None:
    opened = Store(await ground.open(chroot="/" + "chroot" * 400))
    await opened.zk.create_top_level_paths()
    elected = await opened.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=0)
    ops = [Create(f"/{number}", b"x" * 1_000) for number in range(500)]
    results = await opened.transactions.fenced(ops, "test", Fenced(elected.epoch_zk_version))
    assert results == [Created(op.path) for op in ops]


@contract
async def test_groups_stay_together(ground: Ground) -> None:
    opened, version = await controller(ground)
    opened.below.sent.clear()
    ops = [
        op for number in range(300) for op in (Create(f"/n{number}"), Create(f"/n{number}/c"), Create(f"/n{number}/d"))
    ]
    results = await opened.transactions.fenced(ops, "test", Fenced(version), together=3)
    assert results == [Created(op.path) for op in ops]
    assert [len(sent) - 1 for sent in opened.below.sent] == [498, 402]


@contract
async def test_what_is_written_is_heard_of_while_the_rest_is_still_being_made(ground: Ground) -> None:
    opened, version = await controller(ground)
    batches = MAX_IN_FLIGHT + 3
    made, heard = 0, []

    def ops() -> Iterator[Create]:
        nonlocal made
        for made in range(1, batches * MAX_OPS + 1):
            yield Create(f"/n{made}")

    results = await opened.transactions.fenced(
        ops(), "test", Fenced(version), finished=lambda first, results: heard.append((first, len(results), made))
    )
    assert [(first, count) for first, count, _ in heard] == [(number * MAX_OPS, MAX_OPS) for number in range(batches)]
    assert len(results) == batches * MAX_OPS
    assert heard[0][2] < len(results), "ZooKeeper has answered before the last operation was made"


@contract
async def test_what_was_written_before_the_fence_fell_is_heard_of(ground: Ground) -> None:
    opened, version = await controller(ground)
    heard: list[int] = []

    def ops() -> Iterator[Create]:
        yield from (Create(f"/n{number}") for number in range((MAX_IN_FLIGHT + 5) * MAX_OPS))

    def depose(first: int, results: Sequence[object]) -> None:
        heard.extend([first] * bool(results))
        if first == 0:
            deposing.append(asyncio.ensure_future(opened.raw.write(SetData("/controller_epoch", b"2", version))))

    deposing: list[asyncio.Future[object]] = []
    with pytest.raises(ControllerMoved):
        await opened.transactions.fenced(ops(), "test", Fenced(version), finished=depose)
    await asyncio.gather(*deposing)
    written = [name for name in must(await opened.raw.children("/")).names if name.startswith("n")]
    assert len(written) == len(heard) * MAX_OPS


# ------------------------------------------------------------------ the event log


@pytest.mark.spec("R-11")
@contract
async def test_every_transaction_is_announced_before_it_is_sent_and_its_outcome_recorded(ground: Ground) -> None:
    opened, version = await controller(ground)
    await opened.zk.topics.create("t", None, {})
    announced: list[int] = []
    send = opened.below.multi

    async def sending(ops):  # type: ignore[no-untyped-def]
        announced.append(len(opened.records("ZkWrite")))
        return await send(ops)

    before = len(opened.records("ZkWrite"))
    opened.below.multi = sending  # type: ignore[method-assign]
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(5)}, 1, version)
    assert announced == [before + 1, before + 2]
    write, done = opened.records("ZkWrite")[-1], opened.records("ZkWriteDone")[-1]
    assert (write["purpose"], write["operations"], write["fenced"], write["epoch_zk_version"]) == (
        "create-partitions",
        10,
        True,
        version,
    )
    assert write["paths"] == [
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1",
    ]
    state = must(await opened.raw.exists("/brokers/topics/t/partitions/4/state"))
    assert (done["outcome"], done["zxid"]) == ("Ok", state.czxid)
    assert opened.events.zxid >= state.czxid


@contract
async def test_a_refused_write_is_recorded_with_its_reason(ground: Ground) -> None:
    opened = await store(ground)
    await opened.transactions.write(SetData("/none", b""), "test")
    opened.below.lose_answers = 1
    await opened.transactions.write(Create("/a"), "test")
    assert [done["outcome"] for done in opened.records("ZkWriteDone")] == ["NoNode", "Unknown", "NodeExists"]
