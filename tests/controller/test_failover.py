"""A takeover misses nothing, whenever it happens."""

from __future__ import annotations

import pytest

from foundation.eventlog.records import WatchFiredRecord
from foundation.zk.client import Create
from tests.controller.harness import ControllerHarness
from tests.controller.values import led


@pytest.mark.spec("FO-2")
def test_whoever_takes_over_hears_of_brokers_topics_deletions_and_notifications() -> None:
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
        heard = {record.path for record in harness.broker(1).records(WatchFiredRecord) if record.kind == "children"}
        assert heard == {
            "/brokers/ids",
            "/brokers/topics",
            "/admin/delete_topics",
            "/log_dir_event_notification",
            "/isr_change_notification",
        }


COMES = Create("/brokers/topics/late", b'{"version":1,"partitions":{"0":[2]}}')
GOES = Create("/admin/delete_topics/doomed")


def take_over_while(change: Create, before_request: int) -> bool:
    """It happens just before the successor's nth request to ZooKeeper. Returns whether there were so many."""
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        harness.create_topic("doomed", {0: [2]})
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
            assert "/brokers/topics/doomed" not in harness.znodes(), f"it was to go before request {before_request}"
        return True


@pytest.mark.spec("FO-2", "FO-5")
@pytest.mark.parametrize("change", [COMES, GOES], ids=["a topic comes", "a topic is to go"])
def test_what_changes_during_a_takeover_is_seen_at_whatever_moment(change: Create) -> None:
    number = 1
    while take_over_while(change, number):
        number += 1
    assert number > 10
