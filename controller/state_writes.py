"""`StateWrites`: the states that a procedure writes, in rounds: decide from memory, write, decide again on conflicts.

    writes = StateWrites(term, "partition", why=strategy.value)
    with writes.failures_as_outcomes(partitions):
        while states := await writes.undecided():
            await writes.write(new_states(states))

Leader elections, removals from the ISR and the epoch bumps of a reassignment share these rounds; AlterPartition writes
once. Mirrors what `doElectLeaderForPartitions`, `doRemoveReplicasFromIsr` and `updateLeaderEpoch` of Kafka
have in common, with one difference: Kafka reads each state before it writes it. Here the first decision is taken from
memory, which is what ZooKeeper last accepted, each write expects exactly that version, and only the states whose
version differs are read (docs/inside/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import structlog

from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class StateChangeFailed(NamedTuple):
    """Why the state of a partition was not written. `failure` is ZooKeeper's, if ZooKeeper refused."""

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


def states_of(outcomes: Mapping[TopicPartition, Outcome]) -> dict[TopicPartition, LeaderAndIsr]:
    """Return the states in `outcomes`, without the partitions that failed."""
    return {partition: outcome for partition, outcome in outcomes.items() if isinstance(outcome, LeaderAndIsr)}


class StateWrites:
    """The writes of one procedure.

    Args:
        procedure: its points stand before and after each write: `<procedure>.before_write`, `<procedure>.after_write`.
        why: as in the record `LeadershipWritten`.

    Attributes:
        outcomes: what became of each partition so far, conflicts excepted.
        unchanged: the partitions whose state needed no write.
    """

    def __init__(self, term: Term, procedure: str, *, why: str) -> None:
        self.outcomes: dict[TopicPartition, Outcome] = {}
        self.unchanged: set[TopicPartition] = set()
        self._term = term
        self._procedure = procedure
        self._why = why
        self._waiting: Collection[TopicPartition] = ()
        """The partitions to decide on in the next round."""
        self._rounds = 0

    @property
    def accepted(self) -> States:
        """The states that are in memory now: newly written, or unchanged."""
        return states_of(self.outcomes)

    @contextmanager
    def failures_as_outcomes(self, partitions: Collection[TopicPartition]) -> Iterator[None]:
        """Write the states of `partitions` in the rounds inside. A failure of ZooKeeper becomes the outcome of each
        partition that has not been written before it.

        Raises:
            ControllerMoved, SessionLost: the role is lost.
            ZooKeeperFailure: UNKNOWN; memory cannot be trusted.
        """
        self._waiting, self._rounds = partitions, 0
        try:
            yield
        except ZooKeeperFailure as failure:
            if failure.failure is Failure.UNKNOWN:
                raise
            log.error("error while writing partition states", procedure=self._procedure, why=str(failure))
            failed = StateChangeFailed(str(failure), failure.failure)
            self.fail({p: failed for p in partitions if not isinstance(self.outcomes.get(p), LeaderAndIsr)})

    async def undecided(self) -> States:
        """The current states of the partitions to decide on in this round: in the first those in memory, then those
        that ZooKeeper holds of partitions that conflicted. Empty if every partition has an outcome.

        A partition without a state fails, and so does one whose state a newer controller has written; after
        `conflict_rounds` rounds all fail that still conflict.
        """
        waiting, self._waiting = self._waiting, ()
        if not waiting:
            return {}
        rounds = self._term.settings.conflict_rounds
        self._rounds += 1
        if self._rounds > rounds:
            self.fail(
                dict.fromkeys(
                    waiting, StateChangeFailed(f"its state kept changing, {rounds} times", Failure.BAD_VERSION)
                )
            )
            return {}
        if self._rounds > 1:
            return self._changeable(await self._term.zk.states.read(tuple(waiting)))
        leadership = self._term.context.leadership
        return self._changeable({partition: leadership.get(partition, Failure.NO_NODE) for partition in waiting})

    def fail(self, failed: Mapping[TopicPartition, StateChangeFailed]) -> None:
        """Give up these partitions, for example because no new state could be decided on."""
        self.outcomes.update(failed)

    def keep(self, unchanged: States) -> None:
        """Leave these states as they are; memory notes this controller's epoch for them, as in Kafka."""
        if unchanged:
            epoch = self._term.context.epoch
            self._term.context.put_leadership(
                {partition: LeaderIsrAndControllerEpoch(state, epoch) for partition, state in unchanged.items()}
            )
            self.outcomes.update(unchanged)
            self.unchanged.update(unchanged)

    async def write(self, states: States, *, unclean: Collection[TopicPartition] = ()) -> tuple[TopicPartition, ...]:
        """Write `states` once, each expecting its `partition_epoch`. Returns the partitions whose version differed.

        Args:
            unclean: the partitions whose new leader is out of sync; they are recorded as unclean elections.
        """
        if not states:
            return ()
        term, outcomes = self._term, self.outcomes

        def accept(finished: Mapping[TopicPartition, LeaderAndIsr | Failure]) -> None:
            written: dict[TopicPartition, LeaderAndIsr] = {}
            for partition, result in finished.items():
                if isinstance(result, LeaderAndIsr):
                    written[partition] = outcomes[partition] = result
                else:
                    outcomes[partition] = StateChangeFailed("its state could not be written", result)
            self._take_into_memory(written, unclean)

        await term.points.reach(f"{self._procedure}.before_write")
        conflicts = await term.zk.states.update(states, term.context.epoch, term.context.epoch_zk_version, accept)
        await term.points.reach(f"{self._procedure}.after_write")
        self._waiting = conflicts
        return conflicts

    def _changeable(
        self, current: Mapping[TopicPartition, LeaderIsrAndControllerEpoch | Failure]
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """The states that this controller may decide on; the other partitions have failed."""
        term, states = self._term, {}
        for partition, known in current.items():
            if isinstance(known, Failure):
                self.outcomes[partition] = StateChangeFailed("its leader and ISR could not be read", known)
            elif term.is_fenced_by_newer_controller(partition, known.controller_epoch):
                why = f"its state was written by controller epoch {known.controller_epoch}"
                self.outcomes[partition] = StateChangeFailed(why)
            else:
                states[partition] = known.leader_and_isr
        return states

    def _take_into_memory(self, written: States, unclean: Collection[TopicPartition]) -> None:
        if not unclean:
            self._term.accept(written, self._why)
            return
        out_of_sync = {partition: state for partition, state in written.items() if partition in unclean}
        self._term.accept({p: state for p, state in written.items() if p not in out_of_sync}, self._why)
        self._term.accept(out_of_sync, "unclean")
        if out_of_sync:
            self._term.stats.unclean_leader_elections.mark(len(out_of_sync))
