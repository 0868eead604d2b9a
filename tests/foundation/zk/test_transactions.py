"""Transactions: the check of the controller epoch, lost answers, conflicts, and their records in the event log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from tests.contracts.subject import Ensemble, Subject, contract
from tests.foundation.zk.store import Store, controller, led_by, must, partitions, store
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.zk.client import (
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
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, KafkaZkClient, TopicAssignment, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_IN_FLIGHT, MAX_LOST_ANSWERS, MAX_OPS, Fenced

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


async def tree(ensemble: Ensemble) -> dict[str, object]:
    """Return every znode with its data and version."""
    zk = (await ensemble.open()).zk
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
def test_no_write_of_a_deposed_controller_is_applied(subject: Subject, method: str) -> None:
    async def case(ensemble: Ensemble) -> None:
        opened, version = await controller(ensemble)
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
        before = await tree(ensemble)
        with pytest.raises(ControllerMoved):
            await FENCED[method](opened.zk, version)
        assert await tree(ensemble) == before
        hit = opened.records("FenceHit")[-1]
        assert (hit["fence"], hit["offered"], hit["known"]) == ("zk.controller-epoch", version, version + 1)
        assert not hit.get("switched_off")
        assert opened.fences.hits[Fence.ZK_CONTROLLER_EPOCH] == 1

    subject.run(case)


@contract
async def test_a_fence_that_is_switched_off_records_the_write_of_a_deposed_controller(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble, switched_off=[Fence.ZK_CONTROLLER_EPOCH])
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
async def test_a_fenced_write_without_a_controller_epoch_is_refused(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.raw.write(Delete("/controller_epoch"))
    with pytest.raises(ZooKeeperFailure, match="/controller_epoch"):
        await opened.zk.states.update(STATE, 1, version)


@contract
async def test_batches_after_a_refused_one_are_not_sent(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    opened.below.sent.clear()
    states = {partition: led_by(1) for partition in partitions(10_000)}
    with pytest.raises(ControllerMoved):
        await opened.zk.states.update(states, 1, version + 5)
    assert len(opened.below.sent) == 10, "what was in flight when the first refusal came"


# ------------------------------------------------------------------ lost answers


@pytest.mark.spec("R-5", "ZC-2")
@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests"])
@pytest.mark.parametrize("times", [1, 3])
def test_an_update_whose_answer_is_lost_is_applied_once(subject: Subject, lost: str, times: int) -> None:
    async def case(ensemble: Ensemble) -> None:
        opened, version = await controller(ensemble)
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
def test_creations_whose_answer_is_lost_succeed(subject: Subject, lost: str) -> None:
    async def case(ensemble: Ensemble) -> None:
        opened, version = await controller(ensemble)
        await opened.zk.topics.create("t", None, {})
        setattr(opened.below, lost, 2)
        states = {partition: led_by(1) for partition in partitions(3)}
        finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
        await opened.zk.states.create(states, 1, version, finished.update)
        assert finished == states

    subject.run(case)


@pytest.mark.spec("R-5")
@contract
async def test_an_update_survives_a_real_cut(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    observer = await ensemble.open()
    await opened.zk.topics.create("t", None, {})
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(20)}, 1, version)
    await observer.zk.exists("/brokers/topics/t/partitions/19/state", watch=True)
    await ensemble.hold_answers(opened.session)
    wanted = {partition: led_by(2, leader_epoch=1) for partition in partitions(20)}
    finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    update = asyncio.ensure_future(opened.zk.states.update(wanted, 1, version, finished.update))
    await observer.wait_for_watch("/brokers/topics/t/partitions/19/state", WatchKind.CHANGED)
    await ensemble.cut(opened.session)
    await asyncio.sleep(0.2)
    assert not update.done()
    await ensemble.heal(opened.session)
    assert await update == ()
    assert set(finished.values()) == {led_by(2, leader_epoch=1, partition_epoch=1)}
    assert len(finished) == 20


@contract
async def test_a_write_whose_answer_is_lost_succeeds_if_zookeeper_holds_it(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
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
async def test_a_conflict_with_another_client_is_reported_although_a_request_was_lost(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
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
async def test_an_ephemeral_of_another_session_is_a_conflict_after_a_lost_request(ensemble: Ensemble) -> None:
    """Equal data is not enough: another session's ephemeral ends with that session, and a persistent znode never."""
    opened, other = await store(ensemble), await ensemble.open()
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
async def test_lost_reads_are_repeated(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
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
async def test_a_request_fails_after_a_number_of_lost_answers(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
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
async def test_operations_are_sent_one_by_one_when_the_failing_one_is_not_found(ensemble: Ensemble) -> None:
    """A missing parent does not show at the child's path; after a few rounds the rest is sent one by one."""
    opened, version = await controller(ensemble)
    ops = [op for number in range(8) for op in (Create(f"/missing-{number}/child"), Create(f"/there-{number}"))]
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [op for number in range(8) for op in (Failure.NO_NODE, Created(f"/there-{number}"))]


@contract
async def test_a_missing_parent_fails_all_its_children_at_once(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    opened.below.sent.clear()
    ops = [*[Create(f"/missing/{number}") for number in range(100)], Create("/there")]
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [*[Failure.NO_NODE] * 100, Created("/there")]
    assert len(opened.below.sent) == 2


@pytest.mark.spec("ZC-5")
@contract
async def test_transactions_are_split_by_size_and_a_too_large_operation_fails_alone(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    opened.below.sent.clear()
    third = b"x" * (MAX_REQUEST_BYTES // 3)
    ops = [Create(f"/{number}", third) for number in range(5)]
    ops.insert(2, Create("/too-large", b"x" * MAX_REQUEST_BYTES))
    results = await opened.transactions.fenced(ops, "test", Fenced(version))
    assert results == [Created("/0"), Created("/1"), Failure.TOO_LARGE, Created("/2"), Created("/3"), Created("/4")]
    assert all(sum(map(request_bytes, sent)) < MAX_REQUEST_BYTES for sent in opened.below.sent if len(sent) > 2)


@contract
async def test_a_transaction_that_a_chroot_makes_too_large_is_split(ensemble: Ensemble) -> None:
    opened = Store(await ensemble.open(chroot="/" + "chroot" * 400))
    await opened.zk.create_top_level_paths()
    elected = await opened.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=0)
    ops = [Create(f"/{number}", b"x" * 1_000) for number in range(500)]
    results = await opened.transactions.fenced(ops, "test", Fenced(elected.epoch_zk_version))
    assert results == [Created(op.path) for op in ops]


@contract
async def test_operations_of_a_group_are_sent_in_one_transaction(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    opened.below.sent.clear()
    ops = [
        op for number in range(300) for op in (Create(f"/n{number}"), Create(f"/n{number}/c"), Create(f"/n{number}/d"))
    ]
    results = await opened.transactions.fenced(ops, "test", Fenced(version), together=3)
    assert results == [Created(op.path) for op in ops]
    assert [len(sent) - 1 for sent in opened.below.sent] == [498, 402]


@contract
async def test_finished_batches_are_reported_before_all_operations_are_generated(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    batches = MAX_IN_FLIGHT + 3
    made, reported = 0, []

    def ops() -> Iterator[Create]:
        nonlocal made
        for made in range(1, batches * MAX_OPS + 1):
            yield Create(f"/n{made}")

    results = await opened.transactions.fenced(
        ops(), "test", Fenced(version), finished=lambda first, results: reported.append((first, len(results), made))
    )
    assert [(first, count) for first, count, _ in reported] == [
        (number * MAX_OPS, MAX_OPS) for number in range(batches)
    ]
    assert len(results) == batches * MAX_OPS
    assert reported[0][2] < len(results), "a batch is reported before the last operation is generated"


@contract
async def test_batches_applied_before_the_controller_is_deposed_are_reported(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    reported: list[int] = []

    def ops() -> Iterator[Create]:
        yield from (Create(f"/n{number}") for number in range((MAX_IN_FLIGHT + 5) * MAX_OPS))

    def depose(first: int, results: Sequence[object]) -> None:
        reported.extend([first] * bool(results))
        if first == 0:
            deposing.append(asyncio.ensure_future(opened.raw.write(SetData("/controller_epoch", b"2", version))))

    deposing: list[asyncio.Future[object]] = []
    with pytest.raises(ControllerMoved):
        await opened.transactions.fenced(ops(), "test", Fenced(version), finished=depose)
    await asyncio.gather(*deposing)
    written = [name for name in must(await opened.raw.children("/")).names if name.startswith("n")]
    assert len(written) == len(reported) * MAX_OPS


# ------------------------------------------------------------------ the event log


@pytest.mark.spec("R-11")
@contract
async def test_every_transaction_is_recorded_before_it_is_sent_and_with_its_outcome(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", None, {})
    announced: list[int] = []

    async def count_records() -> None:
        announced.append(len(opened.records("ZkWrite")))

    before = len(opened.records("ZkWrite"))
    opened.below.before_multi = count_records
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
async def test_a_refused_write_is_recorded_with_its_reason(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.transactions.write(SetData("/none", b""), "test")
    opened.below.lose_answers = 1
    await opened.transactions.write(Create("/a"), "test")
    assert [done["outcome"] for done in opened.records("ZkWriteDone")] == ["NoNode", "Unknown", "NodeExists"]
