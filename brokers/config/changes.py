"""Applies config changes that other brokers or tools have written to ZooKeeper (CF-2, CF-3).

Mirrors `ZkConfigManager` with its `ZkNodeChangeNotificationListener`. A notification only names the entity whose config
has changed. New ones are handled in order, all of them at the start; one that cannot be decoded is logged and skipped.

Three things differ from Kafka:

- A notification counts as handled by its name, not by the highest number: numbers begin again at 0 if an operator
  has deleted the folder.
- A new session also reads the configs of the brokers themselves, because a notification may have been written and
  purged while there was no session.
- A notification is obsolete when it is that much older than the newest one by the clock of ZooKeeper, which wrote the
  times of both. So a broker whose own clock is wrong deletes no notification that others still need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from understudy.brokers.config.handlers import ConfigHandler
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.zk.admin_znodes import DEFAULT_ENTITY, ConfigEntityChangeNotificationZNode
from understudy.foundation.zk.client import Failure, WatchFired
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.rereading import Rereading
from understudy.foundation.zk.znodes import MalformedZNode

EXPIRATION_MS = 15 * 60 * 1000
AT_A_TIME = 500
"""Number of notifications read with one request."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ZkConfigManager")


async def stored_broker_configs(zk: KafkaZkClient, broker_id: BrokerId) -> tuple[dict[str, str], dict[str, str]]:
    """Return the dynamic configs of all brokers, and of this one, as they are stored when it starts (CF-3).

    A config that cannot be decoded is logged and counts as empty; Kafka's broker does not start with one.
    """
    found = []
    for name in (DEFAULT_ENTITY, str(broker_id)):
        try:
            found.append((await zk.configs.read("brokers", name)).config)
        except MalformedZNode as error:
            log.error("dynamic configs ignored", why=str(error))
            found.append({})
    return found[0], found[1]


class ConfigChangeListener:
    """Reads the notifications of config changes and calls the handler of each changed config.

    Args:
        broker_id: this broker: its config and the default of all brokers are read again in each new session.
        handlers: the handlers by entity type: `topics`, `brokers`, …
        zk: returns the client of the newest session.
        record: records an exception that a handler did not catch.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        handlers: Mapping[str, ConfigHandler],
        zk: Callable[[], KafkaZkClient],
        record: Callable[[str, Exception], None],
    ) -> None:
        self._brokers = (DEFAULT_ENTITY, str(broker_id))
        self._handlers = handlers
        self._zk = zk
        self._record = record
        self._created_ms: dict[str, int] = {}
        """The creation time of each handled notification that still exists."""
        self._reading = Rereading("config changes", self._process, log, level=logging.ERROR)
        self._reading.due()
        self._new_session = False

    def notified(self, notification: WatchFired) -> None:
        if notification.path == ConfigEntityChangeNotificationZNode.path:
            self._reading.due()

    def session_opened(self) -> None:
        self._new_session = True
        self._reading.due()

    async def run(self) -> None:
        """Handle changes as they are notified, without end."""
        await self._reading.run()

    async def _process(self) -> None:
        """Handle the notifications that are new.

        Raises:
            SessionLost, ZooKeeperFailure: `/config/changes` could not be read, or ZooKeeper cannot be reached.
        """
        zk = self._zk()
        listed = await zk.configs.changes()
        if self._new_session:
            await self._handle(zk, [f"brokers/{name}" for name in self._brokers])
            self._new_session = False
        self._created_ms = {name: self._created_ms[name] for name in listed if name in self._created_ms}
        fresh = [name for name in listed if name not in self._created_ms]
        for start in range(0, len(fresh), AT_A_TIME):
            await self._execute(zk, fresh[start : start + AT_A_TIME])
        await self._purge(zk)

    async def _execute(self, zk: KafkaZkClient, names: Sequence[str]) -> None:
        """Handle new notifications in order; a config that several of them name is read once."""
        changes = await zk.configs.read_changes(names)
        await self._handle(
            zk, dict.fromkeys(change.entity_path for change in changes if change.entity_path is not None)
        )
        self._created_ms.update((change.name, change.created_ms) for change in changes)

    async def _handle(self, zk: KafkaZkClient, entity_paths: Iterable[str]) -> None:
        """Read each config and call its handler. As in Kafka, a failure is logged, and the next config is handled.

        Raises:
            SessionLost: the next session reads the configs again.
            ZooKeeperFailure: it is UNKNOWN, because responses keep being lost. Other failures are not raised, because
                they would be repeated.
        """
        for entity_path in entity_paths:
            kind, _, entity = entity_path.partition("/")
            handler = self._handlers.get(kind)
            if handler is None or not entity:
                log.error(
                    "config change of an unknown kind skipped",
                    entity_path=entity_path,
                    known_kinds=tuple(self._handlers),
                )
                continue
            try:
                config = (await zk.configs.read(kind, entity)).config
                log.info("processing override", entity_path=entity_path, keys=tuple(sorted(config)))
                await handler.process_config_changes(entity, config)
            except SessionLost:
                raise
            except (MalformedZNode, ZooKeeperFailure) as error:
                if isinstance(error, ZooKeeperFailure) and error.failure is Failure.UNKNOWN:
                    raise
                log.error("config change skipped", entity_path=entity_path, why=str(error))
            except Exception as error:
                # The failure of one handler must not hold up the changes of others.
                log.error("error processing config change", entity_path=entity_path, exc_info=error)
                self._record(f"handler of {entity_path}", error)

    async def _purge(self, zk: KafkaZkClient) -> None:
        """Delete obsolete notifications; `purgeObsoleteNotifications`."""
        newest_ms = max(self._created_ms.values(), default=0)
        obsolete = [
            name for name, created_ms in sorted(self._created_ms.items()) if newest_ms - created_ms > EXPIRATION_MS
        ]
        try:
            await zk.configs.delete_changes(obsolete)
        except ZooKeeperFailure as failure:
            # The next notification deletes them.
            log.error("obsolete config changes not purged", why=str(failure))
