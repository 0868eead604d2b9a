"""Lines of the operators' log in the pattern of Kafka's `log4j.properties`, `[%d] %p %m (%c)%n`:

    [2026-11-22 03:16:17,123] INFO [Controller id=1] resigned, why="session expired" (kafka.controller.KafkaController)

Each message begins as Kafka's class of that name begins its own (`logIdent`). Fields follow it as `name=value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from datetime import datetime

_PREFIXES = {
    "kafka.cluster.Partition": "[Partition {partition} broker={id}] ",
    "kafka.controller.ControllerChannelManager": "[Channel manager on controller {id}] ",
    "kafka.controller.KafkaController": "[Controller id={id}] ",
    "kafka.controller.TopicDeletionManager": "[Topic Deletion Manager {id}] ",
    "kafka.coordinator.group.GroupCoordinator": "[GroupCoordinator {id}]: ",
    "kafka.coordinator.group.GroupMetadataManager": "[GroupMetadataManager brokerId={id}] ",
    "kafka.network.SocketServer": "[SocketServer listenerType=ZK_BROKER, nodeId={id}] ",
    "kafka.server.KafkaApis": "[KafkaApi-{id}] ",
    "kafka.server.KafkaServer": "[KafkaServer id={id}] ",
    "kafka.server.ReplicaManager": "[ReplicaManager broker={id}] ",
    "kafka.zookeeper.ZooKeeperClient": "[ZooKeeperClient Kafka server] ",
}
"""Prefixes of lines, by logger. Other loggers of Kafka have no prefix."""

_STATE_CHANGES = "state.change.logger"
_LEVELS = {"warning": "WARN", "critical": "FATAL"}
_ENVELOPE = ("event", "level", "logger", "node", "exception")
"""Fields that have their own place in a line. `node` is in the prefix."""


class KafkaLogLines:
    """A structlog renderer.

    Args:
        broker_id: returns the id of the broker.
        now: the machine's time, which log4j writes in its own time zone.
    """

    def __init__(self, broker_id: Callable[[], int], now: Callable[[], datetime]) -> None:
        self._broker_id = broker_id
        self._now = now

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, object]) -> str:
        now = self._now()
        level = str(event["level"])
        logger = str(event["logger"])
        prefix = self._prefix(logger, event)
        fields = "".join(f", {name}={_value(event[name])}" for name in event if name not in _ENVELOPE)
        time = f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"
        line = f"[{time}] {_LEVELS.get(level, level.upper())} {prefix}{_text(event['event'])}{fields} ({logger})"
        traceback = event.get("exception")
        return line if traceback is None else f"{line}\n{traceback}"

    def _prefix(self, logger: str, event: MutableMapping[str, object]) -> str:
        if logger == _STATE_CHANGES:
            # Lines of the controller are logged while one of its events is processed, or one of its requests sent.
            if "controller_event" in event:
                return f"[Controller id={self._broker_id()} epoch={event.get('controller_epoch', -1)}] "
            return f"[Broker id={self._broker_id()}] "
        return _PREFIXES.get(logger, "").format(id=self._broker_id(), partition=event.get("partition", "-"))


def _value(value: object) -> str:
    """As it is if no reader can mistake it; else as a JSON string, so that no value ends its field or its line."""
    if isinstance(value, str):
        is_plain = value.isprintable() and value and not any(character in ' ,="()' for character in value)
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, default=str, ensure_ascii=False)


def _text(event: object) -> str:
    """A message of a library may hold what a peer has sent."""
    text = str(event)
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)
