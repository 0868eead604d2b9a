"""Every znode of Kafka's recordings is decoded and encoded to the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.golden.recording import FOLDER
from tests.golden.recording import SCENARIOS as NAMES
from tests.golden.scenarios import IBP, SCENARIOS
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.admin_znodes import ConfigEntityChangeNotificationZNode, ConfigEntityZNode, FeatureZNode
from understudy.foundation.zk.znodes import (
    BrokerIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)

RECORDINGS = [FOLDER / f"{name}.json" for name in NAMES if name not in SCENARIOS or IBP not in SCENARIOS[name].settings]
"""Znodes of an older inter.broker.protocol.version have another format; `test_scenarios.py` compares those."""
MASKS = ((r"<ms>", "1729700000000"), (r"<port (\d)>", r"909\1"), (r"<id of [^>]*>", "GKx8qQpIQTi1jsQC9Pe1UQ"))


def written_again(path: str, data: bytes) -> bytes | None:
    """The bytes that we would write for a znode with this data; None if it is not compared."""
    match path.split("/")[1:]:
        case ["controller"]:
            return ControllerZNode.encode(ControllerZNode.decode(data).broker_id, 1729700000000)
        case ["controller_epoch"]:
            return ControllerEpochZNode.encode(ControllerEpochZNode.decode(data))
        case ["brokers", "ids", number]:
            return BrokerIdZNode.encode(BrokerIdZNode.decode(BrokerId(int(number)), data), timestamp_ms=1729700000000)
        case ["brokers", "topics", topic]:
            topic_id, partitions = TopicZNode.decode(topic, data)
            return TopicZNode.encode(
                topic_id, {partition.partition: replicas for partition, replicas in partitions.items()}
            )
        case ["brokers", "topics", topic, "partitions", number, "state"]:
            known = TopicPartitionStateZNode.decode(TopicPartition(topic, int(number)), data, 0)
            return TopicPartitionStateZNode.encode(known.leader_and_isr, known.controller_epoch)
        case ["config", "changes", _]:
            return ConfigEntityChangeNotificationZNode.encode(json.loads(data)["entity_path"])
        case ["config", _, _]:
            return ConfigEntityZNode.encode(ConfigEntityZNode.decode(path, data))
        case ["feature"]:
            return FeatureZNode.encode(FeatureZNode.decode(data))
    return None


def znodes(recording: Path) -> dict[tuple[str, bytes], None]:
    """The (path, data) of every znode that a broker ever wrote, with masks replaced by plausible values."""
    found: dict[tuple[str, bytes], None] = {}
    by_hand: set[str] = set()
    for step in json.loads(recording.read_text())["steps"]:
        for transaction in step["txns"]:
            edited = {
                op["path"] for op in transaction.get("multi", [transaction]) if "path" in op and op["op"] != "check"
            }
            by_hand = by_hand | edited if transaction["by"].startswith("session ") else by_hand - edited
        for path, shown in step["tree"].items():
            if path in by_hand:
                continue
            text = re.sub(r"  (\[ephemeral\]  )?v\d+$", "", shown)
            for mask, value in MASKS:
                text = re.sub(mask, value, text)
            found[path, text.encode()] = None
    return found


@pytest.mark.spec("ZN-2", "ZN-3", "ZN-4", "ZN-5", "ZN-6", "ZN-7", "D16")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_znodes_of_kafka_are_decoded_and_encoded_to_the_same_bytes(recording: Path) -> None:
    compared = 0
    for path, data in znodes(recording):
        again = written_again(path, data) if data else None
        if again is not None:
            assert again == data, path
            compared += 1
    assert compared >= 5
