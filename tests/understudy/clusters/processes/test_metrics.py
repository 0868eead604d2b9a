"""The metrics of broker processes, scraped as Prometheus does."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"


def scrape(broker: LocalBroker) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{broker.metrics_address}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


@pytest.mark.spec("MT-3", "MT-4")
def test_the_metrics_of_all_brokers_name_one_active_controller_also_after_its_kill(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    with LocalCluster(3, zookeeper=zookeeper, session_timeout_ms=4_000, properties={"metrics.port": "0"}) as cluster:
        first = cluster.controller()
        # The controller's gauges are updated after an event, when the brokers have received its requests.
        brokers = "kafka_controller_kafkacontroller_activebrokercount"
        cluster.wait_until(lambda: scrape(first)[brokers] == 3, "the controller counts 3 active brokers")
        series = {broker.id: scrape(broker) for broker in cluster.brokers}
        assert {broker_id: found[ACTIVE] for broker_id, found in series.items()} == {
            broker.id: float(broker.id == first.id) for broker in cluster.brokers
        }
        assert series[first.id]["kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_max"] > 0
        assert len({broker.metrics_address for broker in cluster.brokers}) == 3
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://{first.metrics_address}/", timeout=10)

        first.kill()
        with pytest.raises(ClusterError, match=f"{first.name} serves no metrics"):
            scrape(first)
        survivors = [broker for broker in cluster.brokers if broker.id != first.id]
        cluster.wait_until(lambda: sum(scrape(broker)[ACTIVE] for broker in survivors) == 1, "a survivor is controller")
        (successor,) = (broker for broker in survivors if scrape(broker)[ACTIVE])
        cluster.wait_until(lambda: scrape(successor)[brokers] == 2, "the new controller counts 2 active brokers")
        current_controller = "kafka_server_metadataloader_currentcontrollerid"
        cluster.wait_until(
            lambda: scrape(successor)[current_controller] == successor.id, "its own metadata names the new controller"
        )
        assert scrape(successor)["kafka_server_kafkaserver_brokerstate"] == 3
        successor.stop()
        assert not (successor.process.directory / "data" / "metrics.address").exists()
