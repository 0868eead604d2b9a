"""Producer ids across controller failovers: no block and no id is granted twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut
from understudy.foundation.zk.admin_znodes import Features, FeatureZNode
from understudy.foundation.zk.client import SetData, Stat
from understudy.trials.seeds.faults import draw_schedule, schedule_faults
from understudy.trials.seeds.judgement import judge

Blocks = list[tuple[int, int]]
SMALL = 10
"""How many ids a block has in some tests, so that brokers soon request the next one."""


def epoch_of(cluster: SimulatedCluster, broker: int) -> int:
    registered = cluster.zookeeper.tree.exists(f"/brokers/ids/{broker}")
    assert isinstance(registered, Stat)
    return registered.czxid


def allocate(cluster: SimulatedCluster, of: int, broker: int) -> AllocateProducerIdsResponse | None:
    """Send AllocateProducerIds to broker `of` in the name of `broker`; None if the connection is lost."""
    request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch_of(cluster, broker))
    try:
        answer = cluster.ask(cluster.admin.ask(cluster.broker(of).node.name, PORT, request, version=0))
    except ConnectionLost:
        return None
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer


def request_until_granted(cluster: SimulatedCluster, broker: int, blocks: Blocks) -> None:
    """Send AllocateProducerIds to the controller, as a broker does, until it grants a block; add it to `blocks`."""
    for _ in range(40):
        controller = cluster.controller_id()
        answer = (
            None
            if controller is None or not cluster.broker(controller).is_running
            else allocate(cluster, controller, broker)
        )
        if answer is not None and answer.error_code == Errors.NONE:
            blocks.append((answer.producer_id_start, answer.producer_id_start + answer.producer_id_len - 1))
            return
        cluster.run_for(500)
    raise AssertionError(f"broker {broker} got no block in 20 s; so far {blocks}")


def blocks_in_zookeeper(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    """Every block that was ever written to ZooKeeper, in order."""
    ops = (op for transaction in cluster.zookeeper.transactions for op in transaction.writes)
    return [json.loads(op.data) for op in ops if op.path == "/latest_producer_id_block" and op.data]


def written(cluster: SimulatedCluster) -> Blocks:
    return [(int(block["block_start"]), int(block["block_end"])) for block in blocks_in_zookeeper(cluster)]


@pytest.mark.spec("ZN-8", "IO-7", "CO-6")
@pytest.mark.parametrize("at", ["producer_ids.before_write", "producer_ids.after_write"])
def test_a_controller_killed_while_it_allocates_a_block_leaves_at_most_a_gap(at: str) -> None:
    with SimulatedCluster(17, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        request_until_granted(cluster, 1, blocks)
        killed = cluster.controller()
        first = killed.id
        asking = next(broker for broker in cluster.broker_ids if broker != first)
        killed.arm(at, "crash")
        request_until_granted(cluster, asking, blocks)
        assert cluster.controller_id() != first
        killed.begin_start()
        cluster.settle()
        for broker in (1, 2, 3):
            request_until_granted(cluster, broker, blocks)
        starts = [start for start, _ in blocks]
        gap = 1000 if at == "producer_ids.after_write" else 0
        assert starts == [0, 1000 + gap, 2000 + gap, 3000 + gap, 4000 + gap]
        assert set(blocks) <= set(written(cluster))


@pytest.mark.spec("ZN-8", "EL-13")
def test_an_old_controller_and_the_current_one_grant_different_blocks() -> None:
    """The old controller is paused between its read and its write until its session has ended and another broker is
    controller; a broker requests a block from both."""
    with SimulatedCluster(18, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        old = cluster.controller()
        asking = next(broker for broker in cluster.broker_ids if broker != old.id)
        old.arm("producer_ids.before_write", "pause", resume_after_ms=12_000)
        cluster.begin(allocate_from_old_controller(cluster, old.node.name, asking))
        cluster.run_for(8_000)
        assert old.is_paused
        assert cluster.controller_id() != old.id
        request_until_granted(cluster, asking, blocks)
        cluster.run_for(6_000)
        cluster.settle()
        request_until_granted(cluster, asking, blocks)
        assert blocks == [(0, 999), (1000, 1999)]
        assert written(cluster) == blocks


async def allocate_from_old_controller(cluster: SimulatedCluster, node: str, broker: int) -> None:
    request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch_of(cluster, broker))
    answer = await cluster.admin.ask(node, PORT, request, version=0)
    assert isinstance(answer, AllocateProducerIdsResponse)
    assert answer.error_code == Errors.NOT_CONTROLLER


@pytest.mark.spec("ZN-8", "CO-6")
def test_a_block_whose_write_was_lost_or_unknown_is_never_granted_twice() -> None:
    with SimulatedCluster(19, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        controller = cluster.controller()
        for applied in (True, False, True):
            cluster.zookeeper.lost_answers.append(
                LostAnswer(controller.node.name, "/latest_producer_id_block", applied=applied)
            )
            request_until_granted(cluster, 1, blocks)
        assert blocks == [(1000, 1999), (2000, 2999), (4000, 4999)]
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch_of(cluster, 1) - 1)
        refused = cluster.ask(cluster.admin.ask(controller.node.name, PORT, stale, version=0))
        assert isinstance(refused, AllocateProducerIdsResponse)
        assert refused.error_code == Errors.STALE_BROKER_EPOCH
        other = next(broker for broker in cluster.broker_ids if broker != controller.id)
        elsewhere = allocate(cluster, other, 1)
        assert elsewhere is not None
        assert elsewhere.error_code == Errors.NOT_CONTROLLER


# ------------------------------------------------------------------ ids of producers


class Producers:
    """Sends InitProducerId requests to brokers, and keeps the ids that they grant."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.granted: list[tuple[int, int]] = []
        """The broker and the id of each response, in order."""
        self.failed = Counter[str]()
        """How often a request failed, by error."""

    async def request(self, broker: int) -> bool:
        """Send InitProducerId to a broker; return whether it granted an id."""
        node = self.cluster.broker(broker).node.name
        try:
            answer = await self.cluster.admin.ask(node, PORT, InitProducerIdRequest())
        except (ConnectionFailed, ConnectionLost, RequestTimedOut) as error:
            self.failed[type(error).__name__] += 1
            return False
        assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code != Errors.NONE:
            self.failed[Errors(answer.error_code).name] += 1
            return False
        assert answer.producer_epoch == 0
        self.granted.append((broker, answer.producer_id))
        return True

    def request_until_granted(self, broker: int, count: int) -> None:
        for _ in range(count):
            for _ in range(1_000):
                if self.cluster.ask(self.request(broker)):
                    break
                self.cluster.run_for(20)
            else:
                raise AssertionError(
                    f"broker {broker} granted no id in 20 s; so far {self.granted[-20:]}, {self.failed}"
                )

    def request_periodically(self, until_ms: float, *, every_ms: float = 50) -> None:
        """Schedule a request to every broker, every `every_ms` from now on. Lets no time pass."""

        def again() -> None:
            for broker in self.cluster.broker_ids:
                self.cluster.begin(self.request(broker))
            if self.cluster.now_ms < until_ms:
                self.cluster.after(every_ms, again)

        again()

    def judge(self) -> None:
        """Check that no id was granted twice, that each is of a block of its broker, and that no check is violated."""
        ids = [producer_id for _, producer_id in self.granted]
        twice = sorted(producer_id for producer_id, times in Counter(ids).items() if times > 1)
        assert twice == []
        blocks = blocks_in_zookeeper(self.cluster)
        owner = {
            producer_id: int(block["broker"])
            for block in blocks
            for producer_id in range(int(block["block_start"]), int(block["block_end"]) + 1)
        }
        assert [(broker, producer_id) for broker, producer_id in self.granted if owner.get(producer_id) != broker] == []
        self.cluster.close()
        judgement = judge(self.cluster)
        assert judgement.problems == ()
        assert judgement.times_tested["A4"] == len(blocks)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.controller.producer_ids.BLOCK_SIZE", SMALL)


@pytest.mark.spec("CO-6", "ZN-8", "IO-7")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("at", ["producer_ids.before_write", "producer_ids.after_write"])
def test_producers_share_no_id_where_each_controller_is_killed_while_it_allocates_a_block(at: str) -> None:
    with SimulatedCluster(21, brokers=3) as cluster:
        cluster.start()
        producers = Producers(cluster)
        for _ in range(3):
            killed = cluster.controller()
            killed.arm(at, "crash")
            for broker in cluster.broker_ids:
                if broker != killed.id:
                    producers.request_until_granted(broker, 2 * SMALL)
            assert not killed.is_running
            killed.begin_start()
            cluster.settle()
            producers.request_until_granted(killed.id, SMALL)
        assert producers.failed["COORDINATOR_LOAD_IN_PROGRESS"] > 0
        producers.judge()


@pytest.mark.spec("CO-6", "ZN-8")
@pytest.mark.usefixtures("small_blocks")
def test_brokers_of_old_and_new_protocols_share_no_id() -> None:
    """Brokers below 3.0-IV0 allocate blocks in ZooKeeper, the others from the controller; both lose responses."""
    versions = ({"inter.broker.protocol.version": version} for version in ("2.8", "3.9", "2.8", "3.9"))
    with SimulatedCluster(22, brokers=4, own_settings=list(versions)) as cluster:
        cluster.start()
        producers = Producers(cluster)
        for turn in range(4):
            for broker in cluster.brokers:
                path, applied = "/latest_producer_id_block", turn % 2 == 0
                cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, path, applied=applied))
            producers.request_periodically(cluster.now_ms + 1_000, every_ms=100)
            cluster.run_for(1_500)
            for broker_id in cluster.broker_ids:
                producers.request_until_granted(broker_id, SMALL)
            cluster.depose()
            cluster.settle()
        producers.judge()


@pytest.mark.spec("CO-6")
def test_a_restarted_broker_does_not_grant_the_rest_of_its_old_block() -> None:
    with SimulatedCluster(23, brokers=1) as cluster:
        cluster.start()
        producers = Producers(cluster)
        producers.request_until_granted(1, 3)
        cluster.broker(1).kill()
        cluster.broker(1).begin_start()
        cluster.settle()
        producers.request_until_granted(1, 2)
        assert [producer_id for _, producer_id in producers.granted] == [0, 1, 2, 1000, 1001]
        producers.judge()


@pytest.mark.spec("CO-6", "ZN-8")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(30))
def test_producers_share_no_id_under_random_faults(seed: int) -> None:
    """Some of the brokers have an older inter-broker protocol."""
    draw = derived(seed, "protocols")
    settings = [{"inter.broker.protocol.version": draw.choice(("2.8", "3.9"))} for _ in range(4)]
    schedule = draw_schedule(derived(seed, "faults"), brokers=4, duration_ms=20_000)
    with SimulatedCluster(seed, brokers=4, own_settings=settings, reordering=True) as cluster:
        cluster.start()
        producers = Producers(cluster)
        producers.request_periodically(cluster.now_ms + schedule.healed_at_ms)
        schedule_faults(cluster, schedule)
        cluster.run_for(schedule.healed_at_ms + 1)
        cluster.settle()
        assert len(producers.granted) > 2 * SMALL, "ids are granted although the controller changes often"
        for broker in cluster.broker_ids:
            producers.request_until_granted(broker, SMALL)
        producers.judge()


@pytest.mark.spec("AP-2")
def test_api_versions_has_the_epoch_of_the_finalized_features_on_every_broker() -> None:
    with SimulatedCluster(20, brokers=2) as cluster:
        cluster.start()
        cluster.zookeeper.operate([SetData("/feature", FeatureZNode.encode(Features(2, True, {})))])
        cluster.run_for(500)
        hello = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        for broker in cluster.broker_ids:
            answer = cluster.ask(cluster.admin.ask(cluster.broker(broker).node.name, PORT, hello, version=3))
            assert isinstance(answer, ApiVersionsResponse)
            assert (answer.finalized_features_epoch, answer.finalized_features, answer.supported_features) == (
                1,
                (),
                (),
            )
