"""Producer ids across takeovers: whoever is controller, and wherever it dies, no id is given twice."""

from __future__ import annotations

import json

import pytest

from foundation.cluster.errors import Errors
from foundation.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.network import ConnectionLost
from foundation.zk.admin_znodes import Features, FeatureZNode
from foundation.zk.client import SetData, Stat
from understudy.simulator.cluster import PORT, SimulatedCluster
from understudy.simulator.zookeeper import LostAnswer

Blocks = list[tuple[int, int]]


def epoch_of(cluster: SimulatedCluster, broker: int) -> int:
    registered = cluster.zookeeper.tree.exists(f"/brokers/ids/{broker}")
    assert isinstance(registered, Stat)
    return registered.czxid


def ask(cluster: SimulatedCluster, of: int, broker: int) -> AllocateProducerIdsResponse | None:
    """Broker `broker` asks broker `of` for a block; None where no answer comes."""
    request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch_of(cluster, broker))
    try:
        answer = cluster.ask(cluster.admin.ask(cluster.broker(of).node.name, PORT, request, version=0))
    except ConnectionLost:
        return None
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer


def ask_until_given(cluster: SimulatedCluster, broker: int, blocks: Blocks) -> None:
    """As a broker does: of whom it takes for the controller, again and again."""
    for _ in range(40):
        controller = cluster.controller()
        answer = None if controller is None or not cluster.broker(controller).alive else ask(cluster, controller, broker)
        if answer is not None and answer.error_code == Errors.NONE:
            blocks.append((answer.producer_id_start, answer.producer_id_start + answer.producer_id_len - 1))
            return
        cluster.run_for(500)
    raise AssertionError(f"broker {broker} got no block in 20 s; so far {blocks}")


def written(cluster: SimulatedCluster) -> Blocks:
    """Every block that ever stood in ZooKeeper."""
    ops = (op for transaction in cluster.zookeeper.transactions for op in transaction.writes)
    found = [json.loads(op.data) for op in ops if op.path == "/latest_producer_id_block" and op.data]
    return [(int(block["block_start"]), int(block["block_end"])) for block in found]


@pytest.mark.spec("ZN-8", "IO-7", "CO-6")
@pytest.mark.parametrize("at", ["producer_ids.before_write", "producer_ids.after_write"])
def test_a_controller_that_dies_over_a_block_leaves_a_gap_at_most(at: str) -> None:
    with SimulatedCluster(17, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        ask_until_given(cluster, 1, blocks)
        first = cluster.controller()
        dying = cluster.broker(first)
        asking = next(broker for broker in cluster.brokers if broker != first)
        dying.arm(at, "crash")
        ask_until_given(cluster, asking, blocks)
        assert cluster.controller() != first
        dying.restart()
        cluster.settle()
        for broker in (1, 2, 3):
            ask_until_given(cluster, broker, blocks)
        starts = [start for start, _ in blocks]
        gap = 1000 if at == "producer_ids.after_write" else 0
        assert starts == [0, 1000 + gap, 2000 + gap, 3000 + gap, 4000 + gap]
        assert set(blocks) <= set(written(cluster))


@pytest.mark.spec("ZN-8", "EL-13")
def test_a_controller_of_the_past_and_one_of_the_present_share_no_block() -> None:
    """The old one stops between its read and its write, is succeeded, and wakes in a session that is over; its broker asks the
    new one meanwhile."""
    with SimulatedCluster(18, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        old = cluster.broker(cluster.controller())
        asking = next(broker for broker in cluster.brokers if broker != old.id)
        old.arm("producer_ids.before_write", "pause", resume_after_ms=12_000)
        cluster.begin(answered_by_the_old(cluster, old.node.name, asking))
        cluster.run_for(8_000)
        assert old.paused
        assert cluster.controller() != old.id
        ask_until_given(cluster, asking, blocks)
        cluster.run_for(6_000)
        cluster.settle()
        ask_until_given(cluster, asking, blocks)
        assert blocks == [(0, 999), (1000, 1999)]
        assert written(cluster) == blocks


async def answered_by_the_old(cluster: SimulatedCluster, node: str, broker: int) -> None:
    request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch_of(cluster, broker))
    answer = await cluster.admin.ask(node, PORT, request, version=0)
    assert isinstance(answer, AllocateProducerIdsResponse)
    assert answer.error_code == Errors.NOT_CONTROLLER


@pytest.mark.spec("ZN-8", "CO-6")
def test_lost_answers_waste_ids_and_nothing_else() -> None:
    with SimulatedCluster(19, brokers=3) as cluster:
        cluster.start()
        blocks: Blocks = []
        controller = cluster.broker(cluster.controller())
        for applied in (True, False, True):
            cluster.zookeeper.lost_answers.append(
                LostAnswer(controller.node.name, "/latest_producer_id_block", applied=applied)
            )
            ask_until_given(cluster, 1, blocks)
        assert blocks == [(1000, 1999), (2000, 2999), (4000, 4999)]
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch_of(cluster, 1) - 1)
        refused = cluster.ask(cluster.admin.ask(controller.node.name, PORT, stale, version=0))
        assert isinstance(refused, AllocateProducerIdsResponse)
        assert refused.error_code == Errors.STALE_BROKER_EPOCH
        other = next(broker for broker in cluster.brokers if broker != controller.id)
        elsewhere = ask(cluster, other, 1)
        assert elsewhere is not None
        assert elsewhere.error_code == Errors.NOT_CONTROLLER


@pytest.mark.spec("AP-2")
def test_every_broker_names_the_epoch_of_the_finalized_features() -> None:
    with SimulatedCluster(20, brokers=2) as cluster:
        cluster.start()
        cluster.zookeeper.operate([SetData("/feature", FeatureZNode.encode(Features(2, True, {})))])
        cluster.run_for(500)
        hello = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        for broker in cluster.brokers:
            answer = cluster.ask(cluster.admin.ask(cluster.broker(broker).node.name, PORT, hello, version=3))
            assert isinstance(answer, ApiVersionsResponse)
            assert (answer.finalized_features_epoch, answer.finalized_features, answer.supported_features) == (1, (), ())
