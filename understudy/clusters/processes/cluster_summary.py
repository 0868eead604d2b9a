"""Summarizes a cluster as JSON, for `understudy status --json` and the answers of the control port."""

from __future__ import annotations

from typing import Any

from understudy.clusters.findings import findings
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.run_folder import ClusterEntry
from understudy.foundation.cluster.identifiers import TopicPartition

JSON_VERSION = 1


def summary(picture: ClusterPicture, cluster: ClusterEntry | None) -> dict[str, Any]:
    """Return the content of the JSON. `process` is None if the cluster was given by --zookeeper."""
    found = findings(picture)
    return {
        "version": JSON_VERSION,
        "controller": picture.controller,
        "controller_epoch": picture.controller_epoch,
        "brokers": _brokers(picture, cluster),
        "partitions": len(picture.partitions),
        "leaderless": [_partition(picture, partition) for partition in found.leaderless],
        "under_replicated": [_partition(picture, partition) for partition in found.under_replicated],
        "not_preferred": [_partition(picture, partition) for partition in found.not_preferred],
    }


def _brokers(picture: ClusterPicture, cluster: ClusterEntry | None) -> list[dict[str, Any]]:
    entries = {broker.id: broker for broker in cluster.brokers} if cluster else {}
    lines = []
    for broker_id in sorted({*entries, *picture.brokers}):
        registered = picture.brokers.get(broker_id)  # type: ignore[call-overload]  # a plain int is also a valid key
        entry = entries.get(broker_id)
        endpoint = registered.broker.endpoints[0] if registered else None
        lines.append(
            {
                "id": broker_id,
                "registered": registered is not None,
                "broker_epoch": registered.epoch if registered else None,
                "address": f"{endpoint.host}:{endpoint.port}" if endpoint else None,
                "rack": registered.broker.rack if registered else (entry.rack if entry else None),
                "process": entry.state if entry else None,
                "pid": entry.pid if entry and entry.is_running else None,
            }
        )
    return lines


def _partition(picture: ClusterPicture, partition: TopicPartition) -> dict[str, Any]:
    seen = picture.partitions[partition]
    state = seen.state.leader_and_isr if seen.state else None
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": state.leader if state else None,
        "leader_epoch": state.leader_epoch if state else None,
        "replicas": list(seen.assignment.replicas),
        "isr": list(state.isr) if state else [],
    }
