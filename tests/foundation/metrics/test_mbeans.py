"""Metrics have the names that the JMX exporter gives Kafka's MBeans, and Prometheus' own parser reads them."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.brokers.parts import StillClock
from understudy.brokers.mbeans import MBEANS
from understudy.foundation.metrics.instruments import Histogram, Meter, Timer
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading, Value, exposition

RULES = (
    (r"kafka.coordinator.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_coordinator_\1_\2_\3"),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*, (.+)=(.+)><>Count", r"kafka_\1_\2_\3_total"),
    (r"kafka.(\w+)<type=(.+), name=(.+)PerSec\w*><>Count", r"kafka_\1_\2_\3_total"),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value", r"kafka_\1_\2_\3"),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Value", r"kafka_\1_\2_\3"),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.+)><>Count", r"kafka_\1_\2_\3_count"),
    (r"kafka.(\w+)<type=(.+), name=(.+), (.+)=(.*)><>(\d+)thPercentile", r"kafka_\1_\2_\3"),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>Count", r"kafka_\1_\2_\3_count"),
    (r"kafka.(\w+)<type=(.+), name=(.+)><>(\d+)thPercentile", r"kafka_\1_\2_\3"),
)
"""Rules of `example_configs/kafka-2_0_0.yml` that apply to an MBean with at most one key beyond type and name, in
order."""

ATTRIBUTES = {
    MetricKind.GAUGE: ("Value",),
    MetricKind.METER: ("Count",),
    MetricKind.HISTOGRAM: ("Count", "99thPercentile"),
    MetricKind.TIMER: ("Count", "99thPercentile"),
    MetricKind.ATTRIBUTE: ("",),
}


def as_the_exporter_names(mbean: MBean, attribute: str) -> str:
    """The name that `JmxCollector` gives by the first rule that matches the bean, in lower case.

    Its `safeName` puts `_` for characters that a name may not have. The rules leave out MBeans without a name; without
    rules it writes domain, type and attribute.
    """
    if mbean.kind is MetricKind.ATTRIBUTE:
        return re.sub(r"[^a-zA-Z0-9:_]", "_", f"{mbean.domain}_{mbean.type}_{mbean.name}")
    tag = f", {mbean.tag}=1" if mbean.tag else ""
    bean = f"{mbean.domain}<type={mbean.type}, name={mbean.name}{tag}><>{attribute}"
    found = ((re.fullmatch(pattern, bean), name) for pattern, name in RULES)
    return next(re.sub(r"[^a-z0-9:_]", "_", match.expand(name).lower()) for match, name in found if match)


def value_of(kind: MetricKind) -> Value:
    match kind:
        case MetricKind.GAUGE | MetricKind.ATTRIBUTE:
            return 1
        case MetricKind.METER:
            return Meter(StillClock())
        case MetricKind.HISTOGRAM:
            return Histogram(StillClock())
        case MetricKind.TIMER:
            return Timer(StillClock())


def samples(*readings: MetricReading) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The values by name and labels; a suffix `_total` that only the parser added is removed again."""
    text = exposition(readings)
    written = {line.split(" ")[0].split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name if sample.name in written else sample.name.removesuffix("_total")
            assert name in written
            found[name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.mark.spec("MT-2", "MT-3", "MT-4")
@pytest.mark.parametrize("mbean", MBEANS, ids=lambda mbean: mbean.name)
def test_every_mbean_has_the_exporters_name(mbean: MBean) -> None:
    shown = {name for name, _ in samples(MetricReading(mbean, value_of(mbean.kind), "1" if mbean.tag else ""))}
    assert {as_the_exporter_names(mbean, attribute) for attribute in ATTRIBUTES[mbean.kind]} <= shown


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("ActiveControllerCount", "kafka_controller_kafkacontroller_activecontrollercount"),
        ("UncleanLeaderElectionsPerSec", "kafka_controller_controllerstats_uncleanleaderelections_total"),
        ("LeaderElectionRateAndTimeMs", "kafka_controller_controllerstats_leaderelectionrateandtimems_count"),
        ("EventQueueTimeMs", "kafka_controller_controllereventmanager_eventqueuetimems_count"),
        ("UnderReplicatedPartitions", "kafka_server_replicamanager_underreplicatedpartitions"),
        ("IsrShrinksPerSec", "kafka_server_replicamanager_isrshrinks_total"),
        ("offset-commit-rate", "kafka_server_group_coordinator_metrics_offset_commit_rate"),
    ],
)
def test_series_that_kafka_dashboards_use_exist(name: str, series: str) -> None:
    (mbean,) = (mbean for mbean in MBEANS if mbean.name == name)
    assert series in {shown for shown, _ in samples(MetricReading(mbean, value_of(mbean.kind)))}


def test_a_timer_is_exposed_with_all_attributes_of_yammers() -> None:
    clock = StillClock(0.0)
    timer = Timer(clock)
    timer.update(2.0)
    timer.update(4.0)
    clock.now_ms = 10_000
    mbean = MBean(
        "kafka.controller", "ControllerChannelManager", "Time", MetricKind.TIMER, "Of a test.", tag="broker-id"
    )
    base, broker = "kafka_controller_controllerchannelmanager_time", (("broker_id", "3"),)
    assert samples(MetricReading(mbean, timer, "3")) == {
        (f"{base}_count", broker): 2.0,
        (base, (*broker, ("quantile", "0.50"))): 3.0,
        (base, (*broker, ("quantile", "0.75"))): 4.0,
        (base, (*broker, ("quantile", "0.95"))): 4.0,
        (base, (*broker, ("quantile", "0.98"))): 4.0,
        (base, (*broker, ("quantile", "0.99"))): 4.0,
        (base, (*broker, ("quantile", "0.999"))): 4.0,
        (f"{base}_min", broker): 2.0,
        (f"{base}_max", broker): 4.0,
        (f"{base}_mean", broker): 3.0,
        (f"{base}_stddev", broker): pytest.approx(2**0.5),
        (f"{base}_meanrate", broker): 0.2,
        (f"{base}_oneminuterate", broker): pytest.approx(0.4 * 0.92004, abs=1e-5),
        (f"{base}_fiveminuterate", broker): pytest.approx(0.4 * 0.98347, abs=1e-5),
        (f"{base}_fifteenminuterate", broker): pytest.approx(0.4 * 0.99446, abs=1e-5),
    }


def test_the_lines_of_one_metric_family_are_grouped() -> None:
    a = MBean("kafka.server", "T", "A", MetricKind.GAUGE, "First.", tag="broker-id")
    b = MBean("kafka.server", "T", "B", MetricKind.GAUGE, "Second.")
    assert exposition([MetricReading(a, 1, "1"), MetricReading(b, 2), MetricReading(a, 3, "2")]) == (
        "# HELP kafka_server_t_a First.\n"
        "# TYPE kafka_server_t_a gauge\n"
        'kafka_server_t_a{broker_id="1"} 1.0\n'
        'kafka_server_t_a{broker_id="2"} 3.0\n'
        "# HELP kafka_server_t_b Second.\n"
        "# TYPE kafka_server_t_b gauge\n"
        "kafka_server_t_b 2.0\n"
    )
