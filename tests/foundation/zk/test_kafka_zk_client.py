"""`KafkaZkClient` reads and writes Kafka's znodes, and registers brokers and the controller."""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts.subject import Ensemble, Subject, contract
from tests.foundation.zk.store import broker, controller, ids, led_by, must, nothing, partitions, store
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.rules import Fix
from understudy.foundation.zk.admin_znodes import (
    PERSISTENT_PATHS,
    Features,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    ProducerIdBlock,
)
from understudy.foundation.zk.client import Create, Delete, Failure, SetData, WatchKind
from understudy.foundation.zk.entity_configs import ABSENT
from understudy.foundation.zk.kafka_zk_client import (
    ControllerMoved,
    Elected,
    FeatureNode,
    LatestProducerIdBlock,
    SessionLost,
    TopicAssignment,
    ZooKeeperFailure,
)
from understudy.foundation.zk.znodes import (
    BrokerIdZNode,
    ControllerZNode,
    MalformedZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)

TOPIC_ID = TopicId("GKx8qQpIQTi1jsQC9Pe1UQ")
ONE = ReplicaAssignment(ids(1))


# ------------------------------------------------------------------ the start of a broker


@pytest.mark.spec("ZN-1")
@contract
async def test_top_level_paths_are_created_once_and_empty(ensemble: Ensemble) -> None:
    first = await store(ensemble)
    await first.zk.create_top_level_paths()
    nodes = await first.raw.get_many(PERSISTENT_PATHS)
    assert [must(node).data for node in nodes] == [b""] * len(PERSISTENT_PATHS)
    created = [paths for record in first.records("ZkWrite") for paths in record["paths"]]
    assert [path for path in dict.fromkeys(created) if path in PERSISTENT_PATHS] == list(PERSISTENT_PATHS)
    second = await store(ensemble)
    await second.zk.create_top_level_paths()
    assert second.records("ZkWrite") == []


@contract
async def test_the_first_broker_creates_the_cluster_id(ensemble: Ensemble) -> None:
    first, second = await store(ensemble), await store(ensemble)
    assert await first.zk.create_or_get_cluster_id("first") == "first"
    assert await second.zk.create_or_get_cluster_id("second") == "first"


@pytest.mark.spec("BR-1")
@contract
async def test_generated_broker_ids_start_above_the_reserved_and_differ(ensemble: Ensemble) -> None:
    first, second = await store(ensemble), await store(ensemble)
    found = [await zk.brokers.generate_id(1000) for zk in (first.zk, second.zk, first.zk)]
    assert found == [1001, 1002, 1003]


@pytest.mark.spec("BR-3")
@contract
async def test_a_registration_is_ephemeral_and_its_czxid_is_the_epoch(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.create_top_level_paths()
    epoch = await opened.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    node = must(await opened.raw.get("/brokers/ids/3"))
    assert (node.stat.czxid, node.stat.version, node.stat.ephemeral_owner) == (epoch, 1, opened.raw.session_id)
    assert BrokerIdZNode.decode(BrokerId(3), node.data) == broker(3)
    assert opened.records("ZkWrite")[-1]["purpose"] == "registration"


@pytest.mark.spec("BR-3")
@contract
async def test_an_id_that_another_session_owns_is_refused(ensemble: Ensemble) -> None:
    first, second = await store(ensemble), await store(ensemble)
    await first.zk.create_top_level_paths()
    await first.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    with pytest.raises(ZooKeeperFailure, match="broker id 3 is taken") as refused:
        await second.zk.brokers.register(broker(3, 9093), timestamp_ms=8, previous_session_id=12345)
    assert refused.value.failure is Failure.NODE_EXISTS
    assert BrokerIdZNode.decode(BrokerId(3), must(await first.raw.get("/brokers/ids/3")).data) == broker(3)


@pytest.mark.spec("BR-3")
@contract
async def test_the_registration_of_the_brokers_previous_session_is_replaced(ensemble: Ensemble) -> None:
    old, new = await store(ensemble), await store(ensemble)
    await old.zk.create_top_level_paths()
    first = await old.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    second = await new.zk.brokers.register(broker(3), timestamp_ms=8, previous_session_id=old.zk.session_id)
    assert second > first
    assert must(await new.raw.exists("/brokers/ids/3")).ephemeral_owner == new.zk.session_id


@pytest.mark.spec("BR-3")
@contract
async def test_a_registration_whose_answer_was_lost_is_recognised(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.create_top_level_paths()
    opened.below.lose_answers = 1
    epoch = await opened.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    assert epoch == must(await opened.raw.exists("/brokers/ids/3")).czxid


@contract
async def test_without_kafka_7165_a_broker_is_locked_out_by_its_previous_session(ensemble: Ensemble) -> None:
    old, new = await store(ensemble), await store(ensemble, switched_off=[Fix.KAFKA_7165])
    await old.zk.create_top_level_paths()
    await old.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    with pytest.raises(ZooKeeperFailure, match="broker id 3 is taken"):
        await new.zk.brokers.register(broker(3), timestamp_ms=8, previous_session_id=old.zk.session_id)
    assert new.fences.hits[Fix.KAFKA_7165] == 1


@contract
async def test_without_kafka_1387_a_broker_is_locked_out_by_its_own_session(ensemble: Ensemble) -> None:
    opened = await store(ensemble, switched_off=[Fix.KAFKA_1387])
    await opened.zk.create_top_level_paths()
    opened.below.lose_answers = 1
    with pytest.raises(ZooKeeperFailure, match="broker id 3 is taken"):
        await opened.zk.brokers.register(broker(3), timestamp_ms=7, previous_session_id=None)
    assert opened.fences.hits[Fix.KAFKA_1387] == 1


# ------------------------------------------------------------------ the controller election


@pytest.mark.spec("EL-3", "EL-4", "EL-5")
@contract
async def test_the_first_controller_has_epoch_one_and_the_next_two(ensemble: Ensemble) -> None:
    first, second = await store(ensemble), await store(ensemble)
    assert await first.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=5) == Elected(1, 1)
    node = must(await first.raw.get("/controller"))
    assert (ControllerZNode.decode(node.data).broker_id, node.stat.ephemeral_owner) == (1, first.raw.session_id)
    await first.raw.close()
    assert await second.zk.controller.id() is None
    assert await second.zk.controller.register_and_increment_epoch(BrokerId(2), timestamp_ms=5) == Elected(2, 2)
    assert must(await second.raw.get("/controller_epoch")).data == b"2"
    assert await second.zk.controller.id() == 2


@pytest.mark.spec("EL-6")
@contract
async def test_one_of_many_candidates_is_elected_controller(ensemble: Ensemble) -> None:
    candidates = [await store(ensemble) for _ in range(4)]
    results = await asyncio.gather(
        *[
            candidate.zk.controller.register_and_increment_epoch(BrokerId(number), timestamp_ms=5)
            for number, candidate in enumerate(candidates)
        ],
        return_exceptions=True,
    )
    winners = [number for number, result in enumerate(results) if isinstance(result, Elected)]
    assert len(winners) == 1
    assert all(isinstance(result, Elected | ControllerMoved) for result in results)
    assert await candidates[0].zk.controller.id() == winners[0]


@pytest.mark.spec("EL-6")
@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests"])
def test_an_election_is_won_although_an_answer_was_lost(subject: Subject, lost: str) -> None:
    async def case(ensemble: Ensemble) -> None:
        opened = await store(ensemble)
        await opened.raw.write(Create("/controller_epoch", b"7"))
        await opened.raw.write(SetData("/controller_epoch", b"7"))
        setattr(opened.below, lost, 2)
        assert await opened.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=5) == Elected(8, 2)

    subject.run(case)


@pytest.mark.spec("EL-6")
@contract
async def test_a_controller_znode_of_the_brokers_previous_session_is_a_lost_election(ensemble: Ensemble) -> None:
    previous, opened = await store(ensemble), await store(ensemble)
    await previous.raw.write(Create("/controller", ControllerZNode.encode(BrokerId(1), 5), ephemeral=True))
    with pytest.raises(ControllerMoved):
        await opened.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=6)


@pytest.mark.spec("EL-1", "ZC-3")
@contract
async def test_an_absent_controller_znode_is_watched(ensemble: Ensemble) -> None:
    opened, winner = await store(ensemble), await store(ensemble)
    assert await opened.zk.controller.id(watch=True) is None
    await winner.zk.controller.register_and_increment_epoch(BrokerId(2), timestamp_ms=5)
    await opened.session.wait_for_watch("/controller", WatchKind.CREATED)
    assert await opened.zk.controller.id(watch=True) == 2
    await winner.raw.close()
    await opened.session.wait_for_watch("/controller", WatchKind.DELETED)


@pytest.mark.spec("EL-10", "BUG-3")
@contract
async def test_a_left_over_controller_znode_is_deleted_only_by_its_own_session(ensemble: Ensemble) -> None:
    opened, other = await store(ensemble), await store(ensemble)
    await opened.zk.controller.delete_left_over()
    await opened.zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=5)
    await opened.raw.write(SetData("/controller_epoch", b"7"))
    await other.zk.controller.delete_left_over()
    assert await opened.zk.controller.id() == 1
    await opened.zk.controller.delete_left_over()
    assert await opened.zk.controller.id() is None


@pytest.mark.spec("EL-10")
@contract
async def test_a_controller_that_resigns_deletes_its_znode(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.controller.delete(version)
    assert await opened.zk.controller.id() is None
    await opened.zk.controller.delete(version)


# ------------------------------------------------------------------ brokers


@contract
async def test_brokers_are_read_in_order_with_their_epochs(ensemble: Ensemble) -> None:
    stores = [await store(ensemble) for _ in range(3)]
    await stores[0].zk.create_top_level_paths()
    epochs = {}
    for number, opened in zip((10, 9, 1), stores, strict=True):
        epochs[number] = await opened.zk.brokers.register(broker(number), timestamp_ms=7, previous_session_id=None)
    found = await stores[0].zk.brokers.all(watch=True)
    assert list(found.items()) == [(number, BrokerAndEpoch(broker(number), epochs[number])) for number in (1, 9, 10)]
    assert await stores[0].zk.brokers.get(BrokerId(9)) == found[BrokerId(9)]
    assert await stores[0].zk.brokers.get(BrokerId(8)) is None
    await stores[2].raw.close()
    await stores[0].session.wait_for_watch("/brokers/ids", WatchKind.CHILDREN)
    assert list(await stores[0].zk.brokers.all()) == [9, 10]


@pytest.mark.spec("ZN-4")
@contract
async def test_a_znode_that_is_no_broker_id_is_ignored_and_a_malformed_broker_is_an_error(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.create_top_level_paths()
    await opened.zk.brokers.register(broker(1), timestamp_ms=7, previous_session_id=None)
    await opened.raw.write(Create("/brokers/ids/lock"))
    assert list(await opened.zk.brokers.all()) == [1]
    await opened.raw.write(Create("/brokers/ids/2", b"{"))
    with pytest.raises(MalformedZNode, match="/brokers/ids/2"):
        await opened.zk.brokers.all()


@pytest.mark.spec("BR-16")
@contract
async def test_a_watched_broker_znode_fires_when_it_changes(ensemble: Ensemble) -> None:
    opened, other = await store(ensemble), await store(ensemble)
    await other.zk.create_top_level_paths()
    await other.zk.brokers.register(broker(1), timestamp_ms=7, previous_session_id=None)
    await opened.zk.brokers.watch(ids(1, 2))
    await other.raw.write(SetData("/brokers/ids/1", BrokerIdZNode.encode(broker(1, 9999), timestamp_ms=8)))
    await opened.session.wait_for_watch("/brokers/ids/1", WatchKind.CHANGED)


@pytest.mark.spec("ZN-4")
@contract
async def test_a_malformed_broker_registration_is_named(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.create_top_level_paths()
    await opened.raw.write(Create("/brokers/ids/1", b"{"))
    with pytest.raises(MalformedZNode, match="/brokers/ids/1"):
        await opened.zk.brokers.all()


# ------------------------------------------------------------------ topics


@pytest.mark.spec("TC-6")
@contract
async def test_a_topic_is_created_once(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    assert await opened.zk.topics.create("t", TOPIC_ID, {0: ONE}) is None
    assert await opened.zk.topics.create("t", None, {0: ONE}) is Failure.NODE_EXISTS
    assert await opened.zk.topics.exists("t")
    assert not await opened.zk.topics.exists("u")
    assert await opened.zk.topics.names() == ("t",)
    found = await opened.zk.topics.assignments(["t", "u"])
    assert found == {"t": TopicAssignment(TOPIC_ID, {TopicPartition("t", 0): ONE})}


@pytest.mark.spec("D14")
@contract
async def test_a_topic_too_large_for_zookeeper_is_refused(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    huge = {number: ReplicaAssignment(ids(*range(30))) for number in range(12_000)}
    assert await opened.zk.topics.create("t", TOPIC_ID, huge) is Failure.TOO_LARGE
    assert await opened.zk.topics.create("u", TOPIC_ID, {0: ONE}) is None


@pytest.mark.spec("TP-2", "TC-12")
@contract
async def test_watches_fire_for_added_partitions_and_topics(ensemble: Ensemble) -> None:
    opened, other = await store(ensemble), await store(ensemble)
    await other.zk.topics.create("t", TOPIC_ID, {0: ONE})
    await opened.zk.topics.names(watch=True)
    await opened.zk.topics.assignments(["t"], watch=True)
    await other.zk.topics.add_partitions("t", TOPIC_ID, {TopicPartition("t", 0): ONE, TopicPartition("t", 1): ONE})
    await opened.session.wait_for_watch("/brokers/topics/t", WatchKind.CHANGED)
    await other.zk.topics.create("u", TOPIC_ID, {0: ONE})
    await opened.session.wait_for_watch("/brokers/topics", WatchKind.CHILDREN)
    found = await opened.zk.topics.assignments(["t"])
    assert list(found["t"].partitions) == partitions(2)


@contract
async def test_a_malformed_topic_is_left_out(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.topics.create("t", None, {0: ONE})
    await opened.raw.write(Create("/brokers/topics/broken", b"not json"))
    assert list(await opened.zk.topics.assignments(["broken", "t"])) == ["t"]


@pytest.mark.spec("FO-5", "ZN-5")
@contract
async def test_topics_without_id_are_rewritten_with_one(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.raw.write(Create("/brokers/topics/old", b'{"version":1,"partitions":{"3":[1]}}'))
    await opened.zk.topics.set_ids({"old": TOPIC_ID, "gone": TOPIC_ID}, version)
    node = must(await opened.raw.get("/brokers/topics/old"))
    assert node.data == TopicZNode.encode(TOPIC_ID, {3: ONE})
    assert opened.records("ZkWrite")[-1]["fenced"]


@contract
async def test_partitions_added_while_a_topic_is_given_an_id_are_kept(ensemble: Ensemble) -> None:
    """They are added between reading and writing, so the first write fails with BadVersion."""
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", None, {0: ONE})

    async def add_a_partition() -> None:
        opened.below.before_multi = nothing
        await opened.raw.write(SetData("/brokers/topics/t", TopicZNode.encode(None, {0: ONE, 1: ONE})))

    opened.below.before_multi = add_a_partition
    await opened.zk.topics.set_ids({"t": TOPIC_ID}, version)
    found = await opened.zk.topics.assignments(["t"])
    assert found["t"] == TopicAssignment(TOPIC_ID, dict.fromkeys(partitions(2), ONE))


@contract
async def test_assignments_are_rewritten_only_by_the_controller_of_the_epoch(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    moving = TopicAssignment(TOPIC_ID, {TopicPartition("t", 0): ReplicaAssignment(ids(2, 1), ids(2), ids(1))})
    failed = await opened.zk.topics.overwrite_assignments({"u": moving, "t": moving}, version)
    assert failed == {"u": Failure.NO_NODE}
    assert await opened.zk.topics.assignments(["t"]) == {"t": moving}


# ------------------------------------------------------------------ partition states


@contract
async def test_partition_states_are_read_and_missing_or_malformed_ones_are_named(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, dict.fromkeys(range(3), ONE))
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(2)}, 7, version)
    await opened.raw.write(SetData(TopicPartitionStateZNode.path(TopicPartition("t", 1)), b"{}"))
    assert await opened.zk.states.read(partitions(3)) == {
        TopicPartition("t", 0): LeaderIsrAndControllerEpoch(led_by(1), 7),
        TopicPartition("t", 1): Failure.BAD_ARGUMENTS,
        TopicPartition("t", 2): Failure.NO_NODE,
    }
    assert await opened.zk.states.read([]) == {}


@pytest.mark.spec("PSM-5")
@contract
async def test_partition_states_are_created_with_their_parents(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    for topic in ("t", "u"):
        await opened.zk.topics.create(topic, TOPIC_ID, {0: ONE})
    states = {partition: led_by(1, partition_epoch=9) for topic in ("u", "t") for partition in partitions(300, topic)}
    created: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    await opened.zk.states.create(states, 1, version, created.update)
    assert created == {partition: led_by(1) for partition in states}
    assert must(await opened.raw.get("/brokers/topics/t/partitions")).data == b""
    assert must(await opened.raw.get("/brokers/topics/t/partitions/299")).data == b""
    assert set((await opened.zk.states.read(list(states))).values()) == {LeaderIsrAndControllerEpoch(led_by(1), 1)}
    assert [write["operations"] for write in opened.records("ZkWrite") if write["purpose"] == "create-partitions"] == [
        2,
        500,
        500,
        200,
    ]


@pytest.mark.spec("PSM-5")
@contract
async def test_partition_states_are_created_where_parents_exist(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    await opened.zk.states.create({TopicPartition("t", 0): led_by(1)}, 1, version)
    added = {partition: led_by(1) for partition in partitions(3)[1:]}
    created: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    await opened.zk.states.create(added, 1, version, created.update)
    assert created == added


@pytest.mark.spec("PSM-5")
@contract
async def test_one_partition_state_that_exists_does_not_fail_the_others(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    await opened.zk.states.create({TopicPartition("t", 5): led_by(2)}, 1, version)
    await opened.raw.write(Create("/brokers/topics/t/partitions/6"))
    wanted = {partition: led_by(1) for partition in [*partitions(10), *partitions(2, "gone")]}
    created: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    await opened.zk.states.create(wanted, 1, version, created.update)
    assert created.pop(TopicPartition("t", 5)) is Failure.NODE_EXISTS
    assert [created.pop(partition) for partition in partitions(2, "gone")] == [Failure.NO_NODE] * 2
    assert created == {partition: led_by(1) for partition in partitions(10) if partition.partition != 5}
    untouched = await opened.zk.states.read([TopicPartition("t", 5)])
    assert untouched == {TopicPartition("t", 5): LeaderIsrAndControllerEpoch(led_by(2), 1)}


@pytest.mark.spec("D15")
@contract
async def test_partition_states_are_updated_in_batches_and_conflicts_fail_alone(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(1_200)}, 1, version)
    conflicting = [TopicPartition("t", number) for number in (0, 499, 500, 777, 1_199)]
    for partition in conflicting:
        await opened.raw.write(SetData(TopicPartitionStateZNode.path(partition), b"by its leader"))
    await opened.raw.write(Delete(TopicPartitionStateZNode.path(TopicPartition("t", 42))))
    opened.below.sent.clear()
    wanted = {partition: led_by(2, leader_epoch=1) for partition in partitions(1_200)}
    finished: dict[TopicPartition, LeaderAndIsr | Failure] = {}
    assert await opened.zk.states.update(wanted, 1, version, finished.update) == tuple(conflicting)
    assert finished.pop(TopicPartition("t", 42)) is Failure.NO_NODE
    assert set(finished.values()) == {led_by(2, leader_epoch=1, partition_epoch=1)}
    assert len(finished) == 1_200 - len(conflicting) - 1
    assert len(opened.below.sent) == 6, "three batches, each once with its conflicts and once without"
    found = await opened.zk.states.read(list(finished))
    assert set(found.values()) == {LeaderIsrAndControllerEpoch(led_by(2, leader_epoch=1, partition_epoch=1), 1)}


@contract
async def test_no_request_is_sent_for_an_empty_write(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    opened.below.sent.clear()
    assert await opened.zk.states.update({}, 1, version) == ()
    await opened.zk.states.create({}, 1, version)
    await opened.zk.topic_deletions.unmark([], version)
    await opened.zk.topics.set_ids({}, version)
    assert opened.below.sent == []


# ------------------------------------------------------------------ configs


@pytest.mark.spec("ZN-9")
@contract
async def test_a_config_is_created_then_replaced(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    assert (await opened.zk.configs.read("topics", "t")).config == {}
    await opened.zk.configs.write("topics", "t", {"retention.ms": "1"})
    await opened.zk.configs.write("topics", "t", {"segment.bytes": "2"})
    assert (await opened.zk.configs.read("topics", "t")).config == {"segment.bytes": "2"}
    await opened.raw.write(Create("/config/topics/broken", b"]"))
    assert await opened.zk.configs.entities("topics") == ("broken", "t")
    assert await opened.zk.configs.entities("users/alice/clients") == ()
    assert await opened.zk.configs.of_topics(["t", "none", "broken"]) == {"t": {"segment.bytes": "2"}, "none": {}}


@pytest.mark.spec("ZN-9")
@contract
async def test_a_config_is_not_written_without_a_zookeeper_controller(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    with pytest.raises(ControllerMoved, match="no controller"):
        await opened.zk.configs.write("topics", "t", {})
    assert await opened.zk.configs.write("topics", "t", {}, checks_controller=False)
    await opened.raw.write(Create("/controller", b'{"brokerid":3000,"kraftControllerEpoch":5}'))
    with pytest.raises(ControllerMoved, match="KRaft"):
        await opened.zk.configs.write("topics", "t", {})


@pytest.mark.spec("ZN-9")
@contract
async def test_a_config_is_not_written_when_the_controller_changes_meanwhile(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)

    async def delete_the_controller() -> None:
        await opened.raw.write(Delete("/controller"))

    opened.below.before_multi = delete_the_controller
    with pytest.raises(ControllerMoved, match="changed meanwhile"):
        await opened.zk.configs.write("topics", "t", {})


@pytest.mark.spec("ZN-9")
@contract
async def test_a_config_is_written_only_over_the_version_that_was_read(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    configs = opened.zk.configs
    absent = await configs.read("topics", "t")
    assert (absent.config, absent.version) == ({}, ABSENT)
    assert await configs.write("topics", "t", {"retention.ms": "1"}, absent.version)
    assert not await configs.write("topics", "t", {"retention.ms": "2"}, absent.version)
    first = await configs.read("topics", "t")
    assert await configs.write("topics", "t", {"retention.ms": "3"}, first.version)
    assert not await configs.write("topics", "t", {"retention.ms": "4"}, first.version)
    assert (await configs.read("topics", "t")).config == {"retention.ms": "3"}


@pytest.mark.spec("ZN-9")
@contract
async def test_a_config_created_since_it_was_read_is_not_overwritten(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)

    async def create_the_config() -> None:
        await opened.raw.write(Create("/config/topics/t", b'{"version":1,"config":{"their":"s"}}'))

    opened.below.after_multi = create_the_config
    assert not await opened.zk.configs.write("topics", "t", {"our": "s"}, ABSENT)
    assert (await opened.zk.configs.read("topics", "t")).config == {"their": "s"}


@pytest.mark.spec("CF-2")
@contract
async def test_config_change_notifications_are_listed_read_and_deleted(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    configs = opened.zk.configs
    await configs.announce("topics/t")
    await opened.raw.write(Create("/config/changes/config_change_", b"]", sequential=True))
    await opened.raw.write(Create("/config/changes/config_changes", b""))
    names = await configs.changes()
    assert names == ("config_change_0000000000", "config_change_0000000001")
    good, bad = await configs.read_changes((*names, "config_change_0000000009"))
    assert (good.name, good.entity_path, bad.name, bad.entity_path) == (names[0], "topics/t", names[1], None)
    assert 0 <= bad.created_ms - good.created_ms < 60_000
    await configs.delete_changes((*names, "config_change_0000000009"))
    assert await configs.changes() == ()


@pytest.mark.spec("CF-1")
@contract
async def test_the_parent_of_config_change_notifications_is_created_again(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    await opened.raw.write(Delete("/config/changes"))
    await opened.zk.configs.announce("brokers/<default>")
    assert len(await opened.zk.configs.changes()) == 1


@pytest.mark.spec("CF-1")
@contract
async def test_config_changes_are_announced_in_sequential_znodes(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    await opened.zk.configs.announce("topics/t")
    node = must(await opened.raw.get("/config/changes/config_change_0000000000"))
    assert node.data == b'{"version":2,"entity_path":"topics/t"}'


# ------------------------------------------------------------------ administration


@pytest.mark.spec("TD-1")
@contract
async def test_topic_deletions_are_listed_watched_and_removed(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    assert await opened.zk.topic_deletions.topics(watch=True) == ()
    await opened.raw.multi([Create("/admin/delete_topics/u"), Create("/admin/delete_topics/t")])
    await opened.session.wait_for_watch("/admin/delete_topics", WatchKind.CHILDREN)
    assert await opened.zk.topic_deletions.topics() == ("t", "u")
    assert [await opened.zk.topic_deletions.is_marked(topic) for topic in ("t", "v")] == [True, False]
    await opened.zk.topic_deletions.unmark(["t", "none"], version)
    assert await opened.zk.topic_deletions.topics() == ("u",)


@pytest.mark.spec("FO-3")
@contract
async def test_a_preferred_replica_election_is_read_watched_and_removed(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    path = "/admin/preferred_replica_election"
    assert await opened.zk.preferred_elections.read(watch=True) is None
    await opened.raw.write(Create(path, b'{"version":1,"partitions":[{"topic":"t","partition":1}]}'))
    await opened.session.wait_for_watch(path, WatchKind.CREATED)
    assert await opened.zk.preferred_elections.read() == (TopicPartition("t", 1),)
    await opened.raw.write(SetData(path, b"by hand"))
    assert await opened.zk.preferred_elections.read() == ()
    await opened.zk.preferred_elections.delete(version)
    await opened.zk.preferred_elections.delete(version)
    assert await opened.zk.preferred_elections.read() is None
    assert await opened.zk.preferred_elections.create([TopicPartition("u", 0)])
    assert not await opened.zk.preferred_elections.create([TopicPartition("u", 1)])
    assert await opened.zk.preferred_elections.read() == (TopicPartition("u", 0),)


@pytest.mark.spec("FO-3")
@contract
async def test_the_reassignment_znode_is_watched(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    assert not await opened.zk.reassignments.watch()
    await opened.raw.write(Create("/admin/reassign_partitions"))
    await opened.session.wait_for_watch("/admin/reassign_partitions", WatchKind.CREATED)
    assert await opened.zk.reassignments.watch()


@pytest.mark.spec("FO-4")
@contract
async def test_old_isr_and_log_dir_notifications_are_deleted_and_new_ones_watched(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    for delete, path in (
        (opened.zk.log_dir_events.delete_all, LogDirEventNotificationZNode.sequence_path),
        (opened.zk.isr_changes.delete_all, "/isr_change_notification/isr_change_"),
    ):
        folder = path.rpartition("/")[0]
        for _ in range(3):
            await opened.raw.write(Create(path, b"", sequential=True))
        await delete(version)
        assert must(await opened.raw.children(folder)).names == ()
        opened.session.notifications.clear()
        await delete(version)
        await opened.raw.write(Create(path, b"", sequential=True))
        await opened.session.wait_for_watch(folder, WatchKind.CHILDREN)


@pytest.mark.spec("ZN-7", "EL-13")
@contract
async def test_features_are_written_only_over_the_version_that_was_read(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    none = Features(2, True, {})
    assert await opened.zk.features.read(watch=True) is None
    assert await opened.zk.features.write(none, None) == 0
    await opened.session.wait_for_watch("/feature", WatchKind.CREATED)
    assert await opened.zk.features.write(none, None) is None, "it is there already"
    assert must(await opened.raw.get("/feature")).data == b'{"features":{},"version":2,"status":1}'
    read = await opened.zk.features.read(watch=True)
    assert read == FeatureNode(none, 0)
    more = Features(1, False, {"f": 1})
    opened.below.lose_answers = 1
    assert await opened.zk.features.write(more, read) == 1, "its answer was lost, and it is what was meant"
    await opened.session.wait_for_watch("/feature", WatchKind.CHANGED)
    assert await opened.zk.features.write(none, read) is None
    assert await opened.zk.features.read() == FeatureNode(more, 1)


@pytest.mark.spec("ZN-8", "EL-13")
@contract
async def test_a_producer_id_block_is_written_only_over_the_version_that_was_read(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    first, second = ProducerIdBlock(BrokerId(1), 0, 999), ProducerIdBlock(BrokerId(2), 1000, 1999)
    read = await opened.zk.producer_ids.read()
    assert read == LatestProducerIdBlock(None, 0)
    assert await opened.zk.producer_ids.write(first, read)
    assert not await opened.zk.producer_ids.write(second, read)
    data = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert must(await opened.raw.get("/latest_producer_id_block")).data == data
    assert await opened.zk.producer_ids.read() == LatestProducerIdBlock(first, 1)


@pytest.mark.spec("ZN-8")
@contract
async def test_a_producer_id_block_whose_answer_was_lost_is_not_used(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    block = ProducerIdBlock(BrokerId(1), 0, 999)
    read = await opened.zk.producer_ids.read()
    opened.below.lose_answers = 1
    assert not await opened.zk.producer_ids.write(block, read), "another may have written these very bytes"
    after = await opened.zk.producer_ids.read()
    assert after == LatestProducerIdBlock(block, 1)
    opened.below.lose_requests = 1
    assert await opened.zk.producer_ids.write(ProducerIdBlock(BrokerId(1), 1000, 1999), after)


@pytest.mark.spec("ZN-8")
@contract
async def test_a_missing_producer_id_znode_is_an_error(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    await opened.raw.write(Delete("/latest_producer_id_block"))
    with pytest.raises(ZooKeeperFailure, match="latest_producer_id_block"):
        await opened.zk.producer_ids.read()


@pytest.mark.spec("IS-18")
@contract
async def test_isr_change_notifications_are_read_watched_and_deleted_by_name(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    path = IsrChangeNotificationZNode.sequence_path
    for data in (IsrChangeNotificationZNode.encode(partitions(2)), b"what?"):
        await opened.raw.write(Create(path, data, sequential=True))
    read = await opened.zk.isr_changes.read()
    assert read == {"isr_change_0000000000": tuple(partitions(2)), "isr_change_0000000001": ()}
    await opened.raw.write(Create(path, b"", sequential=True))
    await opened.session.wait_for_watch("/isr_change_notification", WatchKind.CHILDREN)
    await opened.zk.isr_changes.delete(read, version)
    assert must(await opened.raw.children("/isr_change_notification")).names == ("isr_change_0000000002",)
    with pytest.raises(ControllerMoved):
        await opened.zk.isr_changes.delete(["isr_change_0000000002"], version + 1)


# ------------------------------------------------------------------ the session


@pytest.mark.spec("D13")
@contract
async def test_every_operation_fails_once_the_session_has_expired(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await ensemble.expire(opened.session)
    zk = opened.zk
    state = {TopicPartition("t", 0): led_by(1)}
    for attempt in (
        zk.controller.id(),
        zk.brokers.all(),
        zk.topics.assignments(["t"]),
        zk.states.read(partitions(1)),
        zk.topics.create("t", None, {0: ONE}),
        zk.states.update(state, 1, version),
        zk.states.create(state, 1, version),
        zk.brokers.register(broker(1), timestamp_ms=1, previous_session_id=None),
        zk.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=1),
    ):
        with pytest.raises(SessionLost):
            await attempt
