"""`ExperimentLoad`: the producers, consumers and members of a group of an experiment, on any event loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from understudy.checks.group_records import add_records
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.clients.client_events import OpenClientLog
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.wire.network import Network
from understudy.trials.experiments.language.actions import OnPartition
from understudy.trials.experiments.language.frozen import FrozenPlan

GROUP: Final = "readers"
"""The group of the members of every experiment."""
GROUP_SETTLES_S: Final = 30.0
_SESSION_MS = 6_000


class ExperimentLoad:
    """The clients of an experiment. If it has no topics, only steps start clients.

    Args:
        bootstrap: returns `host:port` of the brokers.
        begin: begins a coroutine on the event loop of the clients.
        now_ms: the clock of the times in `acknowledged_ms`.
        open_log: begins the event log of a client.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Callable[[], Sequence[str]],
        plan: FrozenPlan,
        *,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        now_ms: Callable[[], float],
        open_log: OpenClientLog,
    ) -> None:
        self.acknowledged_ms: list[float] = []
        """When each batch was acknowledged."""
        self._partitions = plan.experiment.cluster.partitions
        self._clients = ClientLoad(
            network,
            clock,
            bootstrap,
            self._partitions,
            on_acknowledged=lambda: self.acknowledged_ms.append(now_ms()),
            open_log=open_log,
        )
        self._groups = GroupLoad(network, clock, bootstrap, open_log=open_log)
        self.history, self.groups = self._clients.history, self._groups.history
        self._plan = plan
        self._begin = begin
        self._members = 0

    @property
    def running(self) -> int:
        """The number of clients that run."""
        return self._clients.running + self._groups.running

    def start(self) -> None:
        """Begin the clients that the experiment has from its beginning."""
        if not self._partitions:
            return
        load = self._plan.experiment.load
        mean_s = load.producers / load.rate
        for number, setting in zip(range(1, load.producers + 1), itertools.cycle(load.acks), strict=False):
            name, acks = f"producer-{number}", _acks(setting)
            gap_s, source = (0.5 * mean_s, 1.5 * mean_s), derived(self._plan.seed, name)
            # Kafka's producers are idempotent with acks=all only.
            is_idempotent = acks == ALL_ACKS
            self._begin(self._clients.produce(name, acks, source, gap_s=gap_s, is_idempotent=is_idempotent))
        for number in range(1, load.consumers + 1):
            self._begin(self._clients.consume(f"consumer-{number}"))
        self.join(load.members)

    def produce(self, number: int, action: OnPartition) -> None:
        """Begin to send the batch of the step with a number."""
        count = 1 if action.count is None else action.count.low
        self._begin(self._clients.send_once(f"step-{number}", _acks(action.acks or "all"), action.partition, count))

    def join(self, count: int) -> None:
        """Let `count` more members join the group.

        From the first member on, the group's offsets are also fetched all the time, so that lost ones are seen in time.
        """
        if count and not self._members:
            self._begin(self._groups.watch(GROUP, self._partitions))
        settings = MemberSettings(
            group_id=GROUP,
            topics=tuple(topic.name for topic in self._plan.experiment.cluster.topics),
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_SESSION_MS // 3,
        )
        for _ in range(count):
            self._members += 1
            self._begin(self._groups.run(f"member-{self._members}", settings))

    async def settle(self) -> None:
        """Wait up to half a minute until the group has settled, and note what each member has. Called before `stop`."""
        await self._groups.wait_until_settled(int(GROUP_SETTLES_S * 1000))

    def stop(self) -> None:
        """Let all clients end."""
        self._clients.is_stopping = self._groups.is_stopping = True

    async def read_all(self) -> None:
        """Read every partition to its end, after all clients have ended."""
        await self._clients.read_all()

    def note_records(self, records: Sequence[Envelope]) -> None:
        """Add the records of coordinators, and excuse the partitions and groups that may have lost records.

        Args:
            records: all records of the run.
        """
        names = {topic.name for topic in self._plan.experiment.cluster.topics}
        self.history.may_have_lost |= {key for key in partitions_that_may_have_lost(records) if key[0] in names}
        self.groups.zero_ms = min((record.mono_ms for record in records), default=0.0)
        add_records(self.groups, records)


def _acks(value: str | int) -> int:
    return ALL_ACKS if value == "all" else int(value)
