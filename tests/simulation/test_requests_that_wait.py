"""The requests that wait for a broker which does not answer, as the event logs of simulated runs tell it."""

from __future__ import annotations

import pytest

from tests.understudy.page.folding.fold import fold_all
from tests.understudy.page.folding.fold_state import MOST_WAITING, Channel
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SETTINGS, SimulatedCluster
from understudy.foundation.eventlog.records import ChannelClosed, Envelope, RequestQueued, RequestSent
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

SESSION_TIMEOUT_MS = int(SETTINGS["zookeeper.session.timeout.ms"])
TOPICS = 6
WAITING = 2 * TOPICS - 1
"""Each topic needs a LeaderAndIsr and an UpdateMetadata; the first of them is on its way."""


def with_a_silent_broker(cluster: SimulatedCluster) -> SimulatedBroker:
    """Pause a broker that is not the controller, and create topics with replicas on it."""
    cluster.start()
    silent = next(broker for broker in cluster.brokers if broker is not cluster.controller())
    client = cluster.admin.with_bootstrap(f"{cluster.controller().node.name}:{PORT}")
    silent.pause()
    for number in range(TOPICS):
        cluster.begin(client.create_topic(f"orders-{number}", assignment={0: [int(silent.id)]}))
        cluster.run_for(200)
    return silent


def records_of(cluster: SimulatedCluster) -> list[Envelope]:
    return [decode_record(line) for line in cluster.log_lines]


def channel_to(cluster: SimulatedCluster, broker: SimulatedBroker) -> Channel | None:
    """The controller's channel to a broker, by the event logs."""
    controller = fold_all(records_of(cluster)).broker(int(cluster.controller().id))
    return controller.channels.get(int(broker.id))


@pytest.mark.spec("SN-1", "SN-3")
def test_requests_wait_for_a_paused_broker_and_are_sent_in_their_order_when_it_goes_on() -> None:
    with SimulatedCluster(4, brokers=3) as cluster:
        silent = with_a_silent_broker(cluster)
        channel = channel_to(cluster, silent)
        assert channel is not None
        assert channel.in_flight is not None
        assert channel.waiting == WAITING
        assert [each.api for each in channel.first] == ["UpdateMetadata", "LeaderAndIsr"] * (MOST_WAITING // 2)
        assert [each.since_us for each in channel.first] == sorted(each.since_us for each in channel.first)
        silent.resume()
        cluster.settle()
        channel = channel_to(cluster, silent)
        assert channel is not None
        assert (channel.in_flight, channel.waiting, channel.first) == (None, 0, ())
        records = records_of(cluster)
        queued = [r.seq for r in records if isinstance(r.data, RequestQueued) and r.data.to == int(silent.id)]
        sent = [r.data for r in records if isinstance(r.data, RequestSent) and r.data.to == int(silent.id)]
        assert [each.queued for each in sent if each.queued] == queued
    assert judge(cluster).problems == ()


@pytest.mark.spec("SN-3", "BR-7")
def test_requests_that_wait_are_dropped_with_the_channel_when_the_session_of_the_broker_expires() -> None:
    with SimulatedCluster(4, brokers=3) as cluster:
        silent = with_a_silent_broker(cluster)
        before = channel_to(cluster, silent)
        assert before is not None
        assert before.waiting == WAITING
        cluster.run_for(SESSION_TIMEOUT_MS + 2_000)
        closed = [r.data for r in records_of(cluster) if isinstance(r.data, ChannelClosed)]
        assert [(each.to, each.dropped) for each in closed] == [(int(silent.id), before.waiting)]
        assert channel_to(cluster, silent) is None
        silent.resume()
        cluster.settle()
        after = channel_to(cluster, silent)
        assert after is not None
        assert (after.waiting, after.unanswered) == (0, None)
    assert judge(cluster).problems == ()


@pytest.mark.spec("RS-1")
def test_what_waits_is_forgotten_with_the_term_of_a_deposed_controller() -> None:
    with SimulatedCluster(4, brokers=3) as cluster:
        silent = with_a_silent_broker(cluster)
        deposed = cluster.controller()
        deposed.depose()
        cluster.run_for(2_000)
        channel = channel_to(cluster, silent)
        assert channel is not None
        assert 0 < channel.waiting < WAITING
        assert {each.epoch for each in channel.first} == {2}
        picture = fold_all(records_of(cluster))
        assert cluster.controller() is deposed or picture.broker(int(deposed.id)).channels == {}
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()
