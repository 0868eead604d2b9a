"""Computes the `Settings` row of a run: how it was set up, as `metric_tables` defines it."""

from __future__ import annotations

import re
from typing import Any

from understudy.foundation.eventlog.records import ControllerReady, ProcessStarted, RunDescribed, SessionOpened
from understudy.history.metrics.metric_tables import Settings, Table
from understudy.history.reading.run_records import RunRecords

BROKER_NODE = "broker-[0-9]+"
"""Regular expression for the names of nodes that are brokers."""

UNDERSTUDY = "understudy"
KAFKA_ZK = "kafka-zk"
KAFKA_KRAFT = "kafka-kraft"
"""Modes of a cluster: brokers of Understudy, Apache Kafka in ZooKeeper mode, and Apache Kafka in KRaft mode."""

_MODES = {"Apache Kafka": KAFKA_ZK, "understudy": UNDERSTUDY}
"""The mode of a cluster by the software that a `ProcessStarted` names, in order of precedence."""

SETTING_NAMES = tuple(name for name in Settings.__struct_fields__ if name not in Table.__struct_fields__)
"""Names of the settings, which are columns of `Settings`."""


def settings_row(run: RunRecords) -> Settings:
    """Return the settings of a run, from its `RunDescribed` records or derived from others."""
    described = [at.data for at in run.of(RunDescribed)]
    known: dict[str, Any] = {
        name: next((value for each in described if (value := getattr(each, name)) not in (None, "")), None)
        for name in SETTING_NAMES
        if name != "mode"
    }
    derived: dict[str, Any] = {
        "brokers": sum(bool(re.fullmatch(BROKER_NODE, node)) for node in run.signs.nodes) or None,
        "partitions": max(
            (at.data.partitions for at in run.of(ControllerReady) if at.data.partitions > 0), default=None
        ),
        "session_timeout_ms": max((at.data.timeout_ms for at in run.of(SessionOpened)), default=None),
    }
    found = known | {name: value for name, value in derived.items() if known[name] is None}
    return Settings(mode=mode_of(run), **found)


def mode_of(run: RunRecords) -> str | None:
    """Return the mode of the cluster, as `Settings` defines it."""
    if any(at.data.is_kraft for at in run.of(RunDescribed)):
        return KAFKA_KRAFT
    software = {at.data.software for at in run.of(ProcessStarted)}
    return next((mode for name, mode in _MODES.items() if name in software), None)
