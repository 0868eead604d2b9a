"""Writes the states of partitions: decide from memory, write, and decide again where ZooKeeper held something newer.

Leader elections, removals from the ISR and the epoch bumps of a reassignment share this loop; AlterPartition shares
its write step. Mirrors what `doElectLeaderForPartitions`, `doRemoveReplicasFromIsr` and `updateLeaderEpoch` of Kafka
have in common, with one difference: Kafka reads each state before it writes it. Here the first decision is taken from
memory, which is what ZooKeeper last accepted, each write expects exactly that version, and only the states whose
version differs are read (docs/inside/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import structlog

from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class StateChangeFailed(NamedTuple):
    """Why the state of a partition was not written. `failure` is ZooKeeper's, where ZooKeeper refused."""

    why: str
    failure: Failure | None = None

    @property
    def label(self) -> str:
        """The reason as the record `LeadershipNotWritten` names it."""
        return "StateChangeFailed" if self.failure is None else self.failure.value

    @property
    def message(self) -> str:
        """The reason as a client receives it."""
        return self.why if self.failure is None else f"{self.why}: {self.failure.value}"


States: TypeAlias = Mapping[TopicPartition, LeaderAndIsr]
Outcome: TypeAlias = LeaderAndIsr | StateChangeFailed
"""The state that ZooKeeper holds now, with its new partition epoch, or why it was not written."""


class Decision(NamedTuple):
    """What to do with the states of some partitions."""

    write: States
    failed: Mapping[TopicPartition, StateChangeFailed] = MappingProxyType({})
    """Partitions for which no new state could be decided on."""
    unchanged: States = MappingProxyType({})
    """States that are right already: they are not written, but memory notes this controller's epoch, as in Kafka."""
    unclean: Collection[TopicPartition] = ()
    """Of `write`, the partitions whose new leader is out of sync; they are recorded as unclean elections."""


class StateWrites:
    """The writes of one procedure.

    Args:
        procedure: its points stand before and after each write: `<procedure>.before_write`, `<procedure>.after_write`.
        why: as in the record `LeadershipWritten`.
        on_written: called with states that are in memory now, newly written or `unchanged`; in parts, while ZooKeeper
            works on the rest.

    Attributes:
        outcomes: what became of each partition so far, conflicts excepted.
        unchanged: the partitions whose state needed no write.
    """

    def __init__(
        self, term: Term, procedure: str, *, why: str, on_written: Callable[[States], None] | None = None
    ) -> None:
        self.outcomes: dict[TopicPartition, Outcome] = {}
        self.unchanged: set[TopicPartition] = set()
        self._term = term
        self._procedure = procedure
        self._why = why
        self._on_written = on_written

    async def decide_and_write(
        self,
        partitions: Collection[TopicPartition],
        decide: Callable[[States], Decision],
        *,
        look_up: Callable[[States], Awaitable[None]] | None = None,
    ) -> dict[TopicPartition, Outcome]:
        """Decide and write until every partition has an outcome, at most `conflict_rounds` times.

        Partitions without a state, and those whose state a newer controller has written, are never decided on.

        Args:
            decide: pure; called with the current states of the partitions that have no outcome yet.
            look_up: awaited before each decision with the same states, to read what deciding needs besides them.

        Raises:
            ControllerMoved, SessionLost: the role is lost.
            ZooKeeperFailure: UNKNOWN; memory cannot be trusted. Any other failure is the outcome of the partitions that
                were not written before it.
        """
        term, rounds = self._term, self._term.settings.conflict_rounds
        leadership = term.context.leadership
        current: Mapping[TopicPartition, LeaderIsrAndControllerEpoch | Failure]
        current = {partition: leadership.get(partition, Failure.NO_NODE) for partition in partitions}
        try:
            for _ in range(rounds):
                if not current:
                    break
                states = self._changeable(current)
                if look_up is not None:
                    await look_up(states)
                decision = decide(states)
                self.outcomes.update(decision.failed)
                self._keep(decision.unchanged)
                conflicts = await self.write(decision.write, unclean=decision.unclean)
                current = await term.zk.states.read(conflicts) if conflicts else {}
        except ZooKeeperFailure as failure:
            if failure.failure is Failure.UNKNOWN:
                raise
            log.error("error while writing partition states", procedure=self._procedure, why=str(failure))
            self._fail_unwritten(partitions, StateChangeFailed(str(failure), failure.failure))
        else:
            kept_changing = StateChangeFailed(f"its state kept changing, {rounds} times", Failure.BAD_VERSION)
            self.outcomes |= dict.fromkeys(current, kept_changing)
        return self.outcomes

    async def write(self, states: States, *, unclean: Collection[TopicPartition] = ()) -> tuple[TopicPartition, ...]:
        """Write `states` once, each expecting its `partition_epoch`. Returns the partitions whose version differed."""
        if not states:
            return ()
        term, outcomes = self._term, self.outcomes

        def take(finished: Mapping[TopicPartition, LeaderAndIsr | Failure]) -> None:
            written: dict[TopicPartition, LeaderAndIsr] = {}
            for partition, result in finished.items():
                if isinstance(result, LeaderAndIsr):
                    written[partition] = outcomes[partition] = result
                else:
                    outcomes[partition] = StateChangeFailed("its state could not be written", result)
            self._accept(written, unclean)
            self._notify(written)

        await term.points.reach(f"{self._procedure}.before_write")
        conflicts = await term.zk.states.update(states, term.context.epoch, term.context.epoch_zk_version, take)
        await term.points.reach(f"{self._procedure}.after_write")
        return conflicts

    def _changeable(
        self, current: Mapping[TopicPartition, LeaderIsrAndControllerEpoch | Failure]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """The states that this controller may decide on; the other partitions have failed."""
        term, states = self._term, {}
        for partition, known in current.items():
            if isinstance(known, Failure):
                self.outcomes[partition] = StateChangeFailed("its leader and ISR could not be read", known)
            elif not term.may_change(partition, known.controller_epoch):
                why = f"its state was written by controller epoch {known.controller_epoch}"
                self.outcomes[partition] = StateChangeFailed(why)
            else:
                states[partition] = known.leader_and_isr
        return states

    def _keep(self, unchanged: States) -> None:
        if unchanged:
            epoch = self._term.context.epoch
            self._term.context.put_leadership(
                {partition: LeaderIsrAndControllerEpoch(state, epoch) for partition, state in unchanged.items()}
            )
            self.outcomes.update(unchanged)
            self.unchanged.update(unchanged)
            self._notify(unchanged)

    def _notify(self, states: States) -> None:
        if self._on_written is not None:
            self._on_written(states)

    def _accept(self, written: States, unclean: Collection[TopicPartition]) -> None:
        if not unclean:
            self._term.accept(written, self._why)
            return
        self._term.accept({p: state for p, state in written.items() if p not in unclean}, self._why)
        self._term.accept({p: state for p, state in written.items() if p in unclean}, "unclean")

    def _fail_unwritten(self, partitions: Collection[TopicPartition], failed: StateChangeFailed) -> None:
        for partition in partitions:
            if not isinstance(self.outcomes.get(partition), LeaderAndIsr):
                self.outcomes[partition] = failed
