"""The race for `/controller`: join, win, notice a loss, give up. Mirrors `elect`, `maybeResign` and
`triggerControllerMove`.

Winning is one transaction that creates `/controller` and raises `/controller_epoch`; whoever holds that epoch's version
may write, and nobody else (EL-4, EL-13). There is no retry: the watch on `/controller` starts the next round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from foundation.cluster.identifiers import BrokerId
from foundation.eventlog.clock import Clock
from foundation.eventlog.log import EventLog
from foundation.eventlog.points import Points
from foundation.eventlog.records import ControllerElected, ElectionLost
from foundation.zk.kafka_zk_client import ControllerMoved, Elected, KafkaZkClient

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")

NO_CONTROLLER = BrokerId(-1)

STANDS_ASIDE_MS = 1_000
"""How long a broker that could not take over leaves the race to others. Kafka's races on at once, as often as it
can."""


class ControllerElection:
    """Who this broker takes for the controller, and how it becomes or stops being it.

    Args:
        take_over: runs when this broker has won; raises if it cannot take over completely.
        resign: ends the term in progress, if there is one, for a reason in words; reaches for nothing outside.
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
        self._stands_aside_until_ms = 0.0

    @property
    def is_active(self) -> bool:
        return self.active_controller_id == self.broker_id

    async def elect(self, zk: KafkaZkClient) -> None:
        """EL-2 … EL-5: race, unless somebody is controller. What goes wrong after winning is the caller's to judge
        (EL-8)."""
        self.active_controller_id = await self._registered(zk)
        if self.active_controller_id != NO_CONTROLLER:
            log.debug("there is a controller already", controller=self.active_controller_id)
            return
        if self.stands_aside_ms > 0:
            log.info("leaving the race to others", ms=self.stands_aside_ms)
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
    def stands_aside_ms(self) -> float:
        """How long this broker still keeps out of the race."""
        return max(0.0, self._stands_aside_until_ms - self._clock.monotonic_ms())

    def stand_aside(self) -> None:
        """Let others go first for a while: this broker has won and could not take over, and might not the next time
        either."""
        self._stands_aside_until_ms = self._clock.monotonic_ms() + STANDS_ASIDE_MS

    async def maybe_resign(self, zk: KafkaZkClient, why: str) -> None:
        """EL-9: look who is controller now, arm the watch again, and resign if it is no longer us."""
        self.active_controller_id = await self._registered(zk, watch=True)
        if not self.is_active:
            self._resign(f"{why}: the controller is now {self.active_controller_id}")

    async def trigger_controller_move(self, zk: KafkaZkClient, epoch_zk_version: int | None, why: str) -> None:
        """EL-10: resign, then give `/controller` back, so that the next round starts at once.

        Resigning comes first whatever ZooKeeper says; Kafka keeps its term's channels if `/controller` has another
        owner.

        Args:
            epoch_zk_version: the fence of the term in progress; None where there is none.
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
        """Stop being controller without asking who is: the session is over (EL-12), or nobody can say."""
        self.active_controller_id = NO_CONTROLLER
        self._resign(why)

    async def _registered(self, zk: KafkaZkClient, *, watch: bool = False) -> BrokerId:
        registered = await zk.controller.id(watch=watch)
        return NO_CONTROLLER if registered is None else registered

    def _log_lost(self) -> None:
        """LG-3."""
        if self.active_controller_id == NO_CONTROLLER:
            log.warning(
                "a controller has been elected but just resigned, this will result in another round of election"
            )
        else:
            log.debug("another broker was elected", controller=self.active_controller_id, broker_id=self.broker_id)

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
            broker_id=self.broker_id,
            epoch=elected.epoch,
            epoch_zk_version=elected.epoch_zk_version,
        )
