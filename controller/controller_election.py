"""The controller election: becoming controller, and resigning. Mirrors `elect`, `maybeResign` and
`triggerControllerMove`.

A broker is elected by one transaction that creates `/controller` and raises `/controller_epoch`. Only the broker that
knows the new version of `/controller_epoch` may write (EL-4, EL-13). A lost election is not repeated: the watch on
`/controller` starts the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import Points
from understudy.foundation.eventlog.records import ControllerElected, ElectionLost
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, Elected, KafkaZkClient

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")

NO_CONTROLLER = BrokerId(-1)

ELECTION_BACKOFF_MS = 1_000
"""Time for which a broker that was elected and could not take over stays out of elections, in milliseconds. Kafka's
tries again at once, without limit."""


class ControllerElection:
    """The controller as this broker knows it, and how this broker becomes or stops being it.

    Args:
        take_over: awaited when this broker was elected; raises if it could not take over completely.
        resign: ends the term in progress, if there is one; its argument is the reason. It makes no request.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        take_over: Callable[[Elected], Awaitable[None]],
        resign: Callable[[str], None],
        clock: Clock,
        events: EventLog,
        points: Points,
    ) -> None:
        self.broker_id = broker_id
        self.active_controller_id = NO_CONTROLLER
        self._take_over = take_over
        self._resign = resign
        self._clock = clock
        self._events = events
        self._points = points
        self._backs_off_until_ms = 0.0

    @property
    def is_active(self) -> bool:
        return self.active_controller_id == self.broker_id

    async def elect(self, zk: KafkaZkClient) -> None:
        """Try to become controller, unless there is one (EL-2 … EL-5).

        An exception of `take_over` reaches the caller (EL-8).
        """
        self.active_controller_id = await self._registered(zk)
        if self.active_controller_id != NO_CONTROLLER:
            log.debug("there is a controller already", controller=self.active_controller_id)
            return
        if self.backoff_ms > 0:
            log.info("backing off before the next election", delay_ms=self.backoff_ms)
            return
        await self._points.reach("election.before_write")
        try:
            timestamp_ms = int(self._clock.wall_ms())
            elected = await zk.controller.register_and_increment_epoch(self.broker_id, timestamp_ms=timestamp_ms)
        except ControllerMoved:
            await self.maybe_resign(zk, "lost the election")
            self._events.append(ElectionLost(winner=self.active_controller_id))
            self._log_lost()
            return
        await self._points.reach("election.after_write")
        self.active_controller_id = self.broker_id
        self._events.saw_controller_epoch(elected.epoch)
        self._record_elected(zk, elected)
        await self._take_over(elected)

    @property
    def backoff_ms(self) -> float:
        """For how many more milliseconds this broker stays out of elections."""
        return max(0.0, self._backs_off_until_ms - self._clock.monotonic_ms())

    def back_off(self) -> None:
        """Stay out of elections for a while: this broker was elected and could not take over, and might fail again."""
        self._backs_off_until_ms = self._clock.monotonic_ms() + ELECTION_BACKOFF_MS

    async def maybe_resign(self, zk: KafkaZkClient, why: str) -> None:
        """Read `/controller`, arm its watch, and resign if it names another broker (EL-9)."""
        self.active_controller_id = await self._registered(zk, watch=True)
        if not self.is_active:
            self._resign(f"{why}: the controller is now {self.active_controller_id}")

    async def trigger_controller_move(self, zk: KafkaZkClient, epoch_zk_version: int | None, why: str) -> None:
        """Resign, then delete `/controller`, so that the next election starts at once (EL-10).

        The broker resigns first, whatever ZooKeeper answers; Kafka keeps the channels if `/controller` names another
        broker.

        Args:
            epoch_zk_version: the version of `/controller_epoch` that the term in progress was elected at; None without
                a term.
        """
        self.give_up(why)
        self.active_controller_id = await self._registered(zk, watch=True)
        if not self.is_active or epoch_zk_version is None:
            log.warning("the controller has already moved", controller=self.active_controller_id)
            return
        self.active_controller_id = NO_CONTROLLER
        await self._points.reach("resignation.before_write")
        try:
            await zk.controller.delete(epoch_zk_version)
        except ControllerMoved:
            log.warning("the controller has already moved while giving it up")
            self.active_controller_id = await self._registered(zk, watch=True)
        await self._points.reach("resignation.after_write")

    def give_up(self, why: str) -> None:
        """Resign without reading `/controller`: the session has expired (EL-12), or ZooKeeper cannot be asked."""
        self.active_controller_id = NO_CONTROLLER
        self._resign(why)

    async def _registered(self, zk: KafkaZkClient, *, watch: bool = False) -> BrokerId:
        registered = await zk.controller.id(watch=watch)
        return NO_CONTROLLER if registered is None else registered

    def _log_lost(self) -> None:
        """Log which broker was elected instead (LG-3)."""
        if self.active_controller_id == NO_CONTROLLER:
            log.warning(
                "a controller has been elected but just resigned, this will result in another round of election"
            )
        else:
            log.debug("another broker was elected", controller=self.active_controller_id, broker=self.broker_id)

    def _record_elected(self, zk: KafkaZkClient, elected: Elected) -> None:
        record = ControllerElected(
            broker_id=self.broker_id,
            epoch=elected.epoch,
            epoch_zk_version=elected.epoch_zk_version,
            session_id=zk.session_id,
        )
        self._events.append(record)
        log.info(
            "elected as the controller",
            broker=self.broker_id,
            controller_epoch=elected.epoch,
            epoch_zk_version=elected.epoch_zk_version,
        )
