"""Reads and writes `meta.properties`: the broker and cluster of a log directory (version 0). Mirrors
`MetaProperties`."""

from __future__ import annotations

from typing import NamedTuple

from understudy.brokers.config.properties import MalformedProperties, format_properties, parse_properties

FILE = "meta.properties"
VERSION = "0"


class InconsistentMetaProperties(Exception):
    """The directory belongs to another broker or cluster, or its file cannot be read. Fatal; the message names the
    remedy."""


class MetaProperties(NamedTuple):
    """The content of the file; None for what it does not have."""

    broker_id: int | None
    cluster_id: str | None


def read_meta_properties(data: bytes | None) -> MetaProperties:
    """Return the content of the file `data`; empty if there is no file.

    Raises:
        InconsistentMetaProperties: it has another version, or cannot be read.
    """
    if data is None:
        return MetaProperties(None, None)
    try:
        found = parse_properties(data.decode("utf-8"))
        version = found.get("version", VERSION)
        if version != VERSION:
            raise InconsistentMetaProperties(
                f"{FILE} has version {version}; expected {VERSION}, the one of ZooKeeper mode. "
                "Is this a KRaft directory?"
            )
        broker_id = int(found["broker.id"]) if "broker.id" in found else None
    except (ValueError, MalformedProperties) as error:
        raise InconsistentMetaProperties(
            f"{FILE} cannot be read: {error}. Restore it, or start with an empty log.dir"
        ) from error
    return MetaProperties(broker_id, found.get("cluster.id"))


def format_meta_properties(broker_id: int, cluster_id: str) -> bytes:
    return format_properties({"version": VERSION, "broker.id": str(broker_id), "cluster.id": cluster_id}).encode()


def check_meta_properties(stored: MetaProperties, *, cluster_id: str, configured_broker_id: int) -> None:
    """Refuse a directory of another cluster or another broker (BR-1).

    Raises:
        InconsistentMetaProperties: it is.
    """
    if stored.cluster_id is not None and stored.cluster_id != cluster_id:
        raise InconsistentMetaProperties(
            f"The Cluster ID {cluster_id} doesn't match stored clusterId {stored.cluster_id} in {FILE}. "
            "The broker is trying to join the wrong cluster. Configured zookeeper.connect may be wrong."
        )
    if configured_broker_id >= 0 and stored.broker_id is not None and stored.broker_id != configured_broker_id:
        raise InconsistentMetaProperties(
            f"Configured broker.id {configured_broker_id} doesn't match stored broker.id {stored.broker_id} in {FILE}. "
            "If you moved your data, make sure your configured broker.id matches; "
            "if you intend to create a new broker, use an empty log.dir."
        )
