"""Hears of changed configs through ZooKeeper, and hands them on (CF-2, CF-3). Mirrors `ZkConfigManager` with its
`ZkNodeChangeNotificationListener`.

A notification only says whose config to read. Those not seen before are worked off in order, at the start all; what
cannot be understood is logged and skipped.

Three differences to Kafka. What has been seen is known by name and not by the highest number, because numbers begin
again where somebody has deleted the folder. A new session also reads the brokers' configs themselves, because a
notification may have come and gone while there was none. And a notification is too old when it is so much older than
the newest, by the clock of
ZooKeeper, which wrote both: a broker whose own clock is wrong does not take it away from under the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from brokers.config.handlers import ConfigHandler
from foundation.cluster.identifiers import BrokerId
from foundation.zk.admin_znodes import DEFAULT_ENTITY, ConfigEntityChangeNotificationZNode
from foundation.zk.client import Failure, WatchFired
from foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure
from foundation.zk.rereading import Rereading
from foundation.zk.znodes import MalformedZNode

EXPIRATION_MS = 15 * 60 * 1000
AT_A_TIME = 500
"""Notifications read with one request."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ZkConfigManager")


async def stored_broker_configs(zk: KafkaZkClient, broker_id: BrokerId) -> tuple[dict[str, str], dict[str, str]]:
    """CF-3: what is stored for all brokers, and for this one, when it starts. What cannot be decoded counts as nothing,
    where Kafka's broker would not start."""
    found = []
    for name in (DEFAULT_ENTITY, str(broker_id)):
        try:
            found.append((await zk.configs.read("brokers", name)).config)
        except MalformedZNode as error:
            log.error("dynamic configs ignored", why=str(error))
            found.append({})
    return found[0], found[1]


class ConfigChangeListener:
    """
    Args:
        broker_id: whose config is read, beside the brokers' default, at each new session.
        handlers: by kind: `topics`, `brokers`, …
        zk: returns the client of the newest session.
        record: puts the exception of a broken handler on record.
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
        """By notification that is still there, and has been seen, when it was made."""
        self._reading = Rereading("config changes", self._process, log, complain=log.error)
        self._reading.due()
        self._new_session = False

    def notified(self, notification: WatchFired) -> None:
        if notification.path == ConfigEntityChangeNotificationZNode.path:
            self._reading.due()

    def session_opened(self) -> None:
        self._new_session = True
        self._reading.due()

    async def run(self) -> None:
        """Follow the changes, for as long as the broker lives."""
        await self._reading.run()

    async def _process(self) -> None:
        """Handle what has changed since the last look. Reading `/config/changes` may raise; handling a change may not,
        unless ZooKeeper cannot be reached."""
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
        """Handle new notifications in order. A config that several of them name is read once."""
        changes = await zk.configs.read_changes(names)
        await self._handle(
            zk, dict.fromkeys(change.entity_path for change in changes if change.entity_path is not None)
        )
        self._created_ms.update((change.name, change.created_ms) for change in changes)

    async def _handle(self, zk: KafkaZkClient, entity_paths: Iterable[str]) -> None:
        """Read each config and give it to its handler. As in Kafka one that fails is logged, and the next is handled.

        Raises:
            SessionLost: the next session reads again.
            ZooKeeperFailure: UNKNOWN, answers keep being lost. Every other failure would come again.
        """
        for entity_path in entity_paths:
            kind, _, entity = entity_path.partition("/")
            handler = self._handlers.get(kind)
            if handler is None or not entity:
                log.error(
                    "config change of an unknown kind skipped", entity_path=entity_path, known=tuple(self._handlers)
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
                # A handler that is broken must not keep others from their changes.
                log.error("error processing config change", entity_path=entity_path, exc_info=error)
                self._record(f"handler of {entity_path}", error)

    async def _purge(self, zk: KafkaZkClient) -> None:
        newest_ms = max(self._created_ms.values(), default=0)
        obsolete = [
            name for name, created_ms in sorted(self._created_ms.items()) if newest_ms - created_ms > EXPIRATION_MS
        ]
        try:
            await zk.configs.delete_changes(obsolete)
        except ZooKeeperFailure as failure:
            # The next change tries again.
            log.error("obsolete config changes not purged", why=str(failure))
