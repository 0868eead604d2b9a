"""The producers, consumers and members of a group of an experiment as coroutines, for any event loop."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Iterator
from typing import Final

from understudy.checks.groups import check_groups
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.clients.connections import NoLeader
from understudy.clusters.clients.group_load import GroupLoad
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.clients.producer import ALL_ACKS
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.trials.experiments.language.actions import OnPartition
from understudy.trials.experiments.language.document import ClusterPlan, LoadPlan

GROUP: Final = "readers"
"""The group of the members of every experiment."""
GROUP_SETTLES_S: Final = 30.0
_SESSION_MS = 6_000
_LOOK_S = 0.5


def coroutines(load: ClientLoad, plan: LoadPlan, seed: int) -> list[Coroutine[object, object, None]]:
    """Return one coroutine for each producer and consumer; each ends once `load.is_stopping`."""
    acks = ALL_ACKS if plan.acks == "all" else int(plan.acks)
    mean_s = plan.producers / plan.rate

    def gap_s(source: random.Random) -> float:
        return source.uniform(0.5, 1.5) * mean_s

    producers = [
        load.produce(name, acks, derived(seed, name), gap_s=gap_s)
        for name in (f"producer-{number}" for number in range(1, plan.producers + 1))
    ]
    return [*producers, *(load.consume(f"consumer-{number}") for number in range(1, plan.consumers + 1))]


def step_producer(load: ClientLoad, number: int, step: OnPartition) -> Coroutine[object, object, None]:
    """Return the coroutine of the step with a number that produces."""
    acks = ALL_ACKS if step.acks in (None, "all") else int(step.acks)
    return load.send_once(f"step-{number}", acks, step.partition, 1 if step.count is None else step.count.low)


class Members:
    """The members of an experiment's group: those of the load, and those that steps let join later.

    Where there are any, the group's offsets are fetched all the time, too, so that lost ones are seen in time.
    """

    def __init__(self, load: GroupLoad, plan: ClusterPlan) -> None:
        self._load = load
        self._settings = MemberSettings(
            group_id=GROUP,
            topics=tuple(topic.name for topic in plan.topics),
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_SESSION_MS // 3,
        )
        self._partitions = [
            TopicPartition(topic.name, each) for topic in plan.topics for each in range(topic.partitions)
        ]
        self._count = 0

    def join(self, count: int) -> Iterator[Coroutine[object, object, None]]:
        """Yield the coroutines of further members; each ends once the load is stopping."""
        if count and not self._count:
            yield self._load.watch(GROUP, self._partitions)
        for _ in range(count):
            self._count += 1
            yield self._load.run(f"member-{self._count}", self._settings)

    async def settle(self) -> None:
        """Wait up to half a minute until the group has one generation and an owner of each partition.

        Notes what each member has then, which G3 judges, also if that is not so.
        """
        history = self._load.history
        looks = int(GROUP_SETTLES_S / _LOOK_S) if self._count else 0
        for _ in range(looks):
            history.last.clear()
            with contextlib.suppress(NoLeader):
                await self._load.note_last_states()
                if not any(violation.check == "G3" for violation in check_groups(history).violations):
                    return
            await asyncio.sleep(_LOOK_S)
