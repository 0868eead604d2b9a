"""A takeover misses nothing, whenever it happens."""

from __future__ import annotations

import pytest

from foundation.eventlog.records import WatchFired
from foundation.zk.client import Create
from tests.controller.stage import Stage
from tests.controller.values import led


@pytest.mark.spec("FO-2")
def test_whoever_takes_over_hears_of_brokers_topics_deletions_and_notifications() -> None:
    with Stage(standing=(0, 1), brokers=(2,)) as stage:
        stage.start()
        stage.member(0).crash()
        stage.forget()
        stage.create_topic("orders", {0: [2]})
        stage.member(0).start()
        for notification in (
            "admin/delete_topics/orders",
            "log_dir_event_notification/log_dir_event_0",
            "isr_change_notification/isr_change_0",
        ):
            stage.write_znode(f"/{notification}", b"")
        heard = {record.path for record in stage.member(1).records(WatchFired) if record.kind == "children"}
        assert heard == {
            "/brokers/ids",
            "/brokers/topics",
            "/admin/delete_topics",
            "/log_dir_event_notification",
            "/isr_change_notification",
        }


def take_over_while_a_topic_comes_and_one_goes(before_request: int) -> int:
    """Both happen just before the successor's nth request to ZooKeeper. Returns how many requests the takeover made."""
    with Stage(standing=(0, 1), brokers=(2,)) as stage:
        stage.start()
        stage.create_topic("doomed", {0: [2]})
        link = stage.zookeeper.link("broker-1")
        first = link.requests
        pending = [
            Create("/brokers/topics/late", b'{"version":1,"partitions":{"0":[2]}}'),
            Create("/admin/delete_topics/doomed"),
        ]

        def meanwhile(_: int) -> None:
            if pending and link.requests - first >= before_request:
                assert stage.zookeeper.operate(pending)
                pending.clear()

        if before_request:
            link.before_request = meanwhile
        stage.member(0).crash()
        stage.settle(2_000)
        took = link.requests - first
        if before_request:
            assert stage.state("late", 0) == led(2, (2,), by=2), f"the topic came before request {before_request}"
            assert "/brokers/topics/doomed" not in stage.znodes(), f"it was to go before request {before_request}"
        return took


@pytest.mark.spec("FO-2", "FO-5")
def test_what_changes_during_a_takeover_is_seen_at_whatever_moment() -> None:
    requests = take_over_while_a_topic_comes_and_one_goes(0)
    assert requests > 10
    for number in range(1, requests + 1):
        take_over_while_a_topic_comes_and_one_goes(number)
