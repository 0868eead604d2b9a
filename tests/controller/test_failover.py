"""Tests that a takeover misses no change that is made before or during it."""

from __future__ import annotations

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.values import led
from understudy.foundation.eventlog.records import ContextLoaded, WatchFiredRecord
from understudy.foundation.zk.client import Create


@pytest.mark.spec("FO-2")
def test_failover_arms_the_watches() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.broker(0).crash()
        harness.clear_history()
        harness.create_topic("orders", {0: [2]})
        harness.broker(0).start()
        for notification in (
            "admin/delete_topics/orders",
            "log_dir_event_notification/log_dir_event_0",
            "isr_change_notification/isr_change_0",
        ):
            harness.write_znode(f"/{notification}", b"")
        fired = {record.path for record in harness.broker(1).records(WatchFiredRecord) if record.kind == "children"}
        assert fired == {
            "/brokers/ids",
            "/brokers/topics",
            "/admin/delete_topics",
            "/log_dir_event_notification",
            "/isr_change_notification",
        }


COMES = Create("/brokers/topics/late", b'{"version":1,"partitions":{"0":[2]}}')
MARK = Create("/admin/delete_topics/deleted")


def take_over_while(change: Create, before_request: int) -> bool:
    """Make a change just before the successor's nth request to ZooKeeper. Returns whether there was an nth request."""
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("deleted", {0: [2]})
        link = harness.zookeeper.link("broker-1")
        first = link.requests
        pending = [change]

        def meanwhile(_: int) -> None:
            if pending and link.requests - first >= before_request:
                assert harness.zookeeper.operate([pending.pop()])

        link.before_request = meanwhile
        harness.broker(0).crash()
        harness.settle(2_000)
        if pending:
            return False
        if change is COMES:
            assert harness.state("late", 0) == led(2, (2,), by=2), f"the topic came before request {before_request}"
        else:
            assert "/brokers/topics/deleted" not in harness.znodes(), f"it was to go before request {before_request}"
        return True


@pytest.mark.spec("FO-2", "FO-5")
@pytest.mark.parametrize("change", [COMES, MARK], ids=["a topic comes", "a topic is to go"])
def test_change_at_any_moment_of_a_failover_is_seen(change: Create) -> None:
    number = 1
    while take_over_while(change, number):
        number += 1
    assert number > 10


@pytest.mark.spec("FO-2")
def test_the_record_of_a_failover_says_how_long_it_took() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.settle(60_000)
        harness.broker(0).crash()
        harness.settle(10_000)
        (loaded,) = harness.broker(1).records(ContextLoaded)
        assert 0 < loaded.took_ms < 10_000
