"""Reads brokers' notifications of failed log directories, `/log_dir_event_notification` (LD-2).

Mirrors `getAllLogDirEventNotifications` and `deleteLogDirEventNotifications` of `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.zk.admin_znodes import LogDirEventNotificationZNode
from understudy.foundation.zk.client import ZNodeData
from understudy.foundation.zk.transactions import Fenced, Part
from understudy.foundation.zk.znodes import MalformedZNode

PURPOSE = "log-dir-events"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class LogDirEvents(Part):
    """Reads and deletes notifications. The part `log_dir_events` of `KafkaZkClient`, and raises what it does."""

    async def read(self) -> dict[str, BrokerId | None]:
        """Read the broker with a failed log directory, by notification; arms the child watch (LD-2).

        None stands for a notification that cannot be decoded.
        """
        notifications = await self._transactions.read_children(LogDirEventNotificationZNode.path)
        return {name: _broker_of(node) for name, node in notifications.items()}

    async def delete(self, names: Iterable[str], epoch_zk_version: int) -> None:
        """Delete the notifications with these names, fenced."""
        paths = [f"{LogDirEventNotificationZNode.path}/{name}" for name in names]
        await self._transactions.delete_all(paths, PURPOSE, Fenced(epoch_zk_version))

    async def delete_all(self, epoch_zk_version: int) -> None:
        """Delete all notifications, fenced; arms the child watch (FO-4)."""
        await self._transactions.delete_children(LogDirEventNotificationZNode.path, PURPOSE, Fenced(epoch_zk_version))


def _broker_of(notification: ZNodeData) -> BrokerId | None:
    try:
        return LogDirEventNotificationZNode.decode(notification.data)
    except MalformedZNode as error:
        _log.error("log dir event ignored", why=str(error))
        return None
