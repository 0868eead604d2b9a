"""The rules that a node follows since the fix of a historic bug of Kafka.

All hold, but an experiment can switch one off to show what it protects from. A rule counts how often it has decided
something; one that is off also writes a record each time it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Fix(Enum):
    """The fixes by the JIRA or KIP that made them; `Rules` says what each demands."""

    KAFKA_1382 = "kafka-1382"
    KAFKA_1387 = "kafka-1387"
    KAFKA_1555 = "kafka-1555"
    KAFKA_2729 = "kafka-2729"
    KAFKA_3143 = "kafka-3143"
    KAFKA_4443 = "kafka-4443"
    KAFKA_5083 = "kafka-5083"
    KAFKA_5310 = "kafka-5310"
    KAFKA_7128 = "kafka-7128"
    KAFKA_7165 = "kafka-7165"
    KAFKA_7415 = "kafka-7415"
    KAFKA_7482 = "kafka-7482"
    KAFKA_7786 = "kafka-7786"
    KAFKA_9212 = "kafka-9212"
    KAFKA_9769 = "kafka-9769"
    KAFKA_9839 = "kafka-9839"
    KAFKA_10706 = "kafka-10706"
    KAFKA_13091 = "kafka-13091"
    KAFKA_13225 = "kafka-13225"
    KAFKA_14140 = "kafka-14140"
    KAFKA_14144 = "kafka-14144"
    KAFKA_14154 = "kafka-14154"
    KAFKA_14704 = "kafka-14704"
    KIP_101 = "kip-101"
    KIP_106 = "kip-106"
    KIP_279 = "kip-279"
    KIP_380 = "kip-380"
    KIP_497 = "kip-497"
    KIP_570 = "kip-570"
    KIP_966 = "kip-966"


class Rule:
    """What a node does since one fix.

    Args:
        holds: False if an experiment has switched it off.
        decides: called each time the rule decides something, with what it decides about.
    """

    __slots__ = ("_decides", "holds")

    def __init__(self, *, holds: bool, decides: Callable[[object], None]) -> None:
        self.holds = holds
        self._decides = decides

    def holds_for(self, what: object) -> bool:
        """Return whether the rule holds, and count that it decides about `what`, for example a partition.

        To be called only if the rule makes a difference.
        """
        self._decides(what)
        return self.holds


class Rules:
    """The rules of one node, by what each demands.

    Args:
        rule: makes the rule of a fix.
    """

    def __init__(self, rule: Callable[[Fix], Rule]) -> None:
        self.own_write_counts_as_success = rule(Fix.KAFKA_1382)
        """A write that conflicts after its answer was lost counts as success if ZooKeeper holds what was meant
        (KAFKA-1382)."""
        self.own_registration_counts_as_success = rule(Fix.KAFKA_1387)
        """A broker that finds its registration taken by its own session continues: the answer to its write was lost
        (KAFKA-1387)."""
        self.acks_all_needs_min_isr = rule(Fix.KAFKA_1555)
        """A leader refuses acks=all if its ISR is smaller than `min.insync.replicas` (KAFKA-1555)."""
        self.undecided_isr_change_is_repeated = rule(Fix.KAFKA_2729)
        """A leader repeats an ISR change that was refused without a decision, so that its ISR does not freeze
        (KAFKA-2729)."""
        self.takeover_removes_dead_brokers_from_isrs = rule(Fix.KAFKA_3143)
        """A new controller takes the replicas of dead brokers out of the ISRs (KAFKA-3143)."""
        self.metadata_goes_before_leaders = rule(Fix.KAFKA_4443)
        """UpdateMetadata is sent before LeaderAndIsr, so that a follower knows the address of its leader
        (KAFKA-4443)."""
        self.last_isr_member_stays = rule(Fix.KAFKA_5083)
        """The last member of an ISR stays in it when its broker dies (KAFKA-5083)."""
        self.resignation_clears_context = rule(Fix.KAFKA_5310)
        """A controller forgets its memory when it resigns (KAFKA-5310)."""
        self.new_isr_member_has_epoch_start = rule(Fix.KAFKA_7128)
        """A follower joins the ISR only when it has the records up to the start of the leader's epoch (KAFKA-7128)."""
        self.own_old_registration_is_replaced = rule(Fix.KAFKA_7165)
        """A broker replaces the registration that its own previous session has left behind (KAFKA-7165)."""
        self.new_leader_notes_epoch_start = rule(Fix.KAFKA_7415)
        """A new leader notes where its epoch begins, even if it never appends (KAFKA-7415)."""
        self.leaving_broker_receives_new_leader = rule(Fix.KAFKA_7482)
        """A broker that shuts down is sent the LeaderAndIsr that makes another broker leader (KAFKA-7482)."""
        self.answer_to_old_assignment_is_ignored = rule(Fix.KAFKA_7786)
        """A follower ignores what a Fetch answers about a partition that was assigned anew while it was under
        way (KAFKA-7786)."""
        self.context_takes_raised_leader_epoch = rule(Fix.KAFKA_9212)
        """The controller's memory takes the leader epoch that a reassignment has raised (KAFKA-9212)."""
        self.follower_that_cannot_fetch_keeps_old_epoch = rule(Fix.KAFKA_9769)
        """A follower that cannot fetch yet does not note the leader epoch, so that the next LeaderAndIsr is new
        to it (KAFKA-9769)."""
        self.newer_broker_epoch_is_accepted = rule(Fix.KAFKA_9839)
        """A broker accepts a control request with a broker epoch that is newer than the one it knows (KAFKA-9839)."""
        self.truncation_removes_epochs_without_records = rule(Fix.KAFKA_10706)
        """A truncation removes leader epochs also if no record goes (KAFKA-10706)."""
        self.smaller_isr_moves_high_watermark = rule(Fix.KAFKA_13091)
        """A leader looks at its high watermark when the controller has accepted a smaller ISR (KAFKA-13091)."""
        self.broker_failure_updates_metadata = rule(Fix.KAFKA_13225)
        """The controller sends UpdateMetadata for a dead broker also if no partition has changed (KAFKA-13225)."""
        self.new_isr_is_of_live_brokers = rule(Fix.KAFKA_14140)
        """The controller refuses an ISR with a broker that is dead or shutting down (KAFKA-14140)."""
        self.repeated_alter_partition_is_accepted = rule(Fix.KAFKA_14144)
        """The controller accepts an AlterPartition again whose first answer was lost (KAFKA-14144)."""
        self.newer_leader_is_sent_to_controller = rule(Fix.KAFKA_14154)
        """A controller answers NOT_CONTROLLER to a leader that has a newer epoch than its own memory (KAFKA-14154)."""
        self.truncation_goes_before_high_watermark = rule(Fix.KAFKA_14704)
        """A follower truncates before it takes a high watermark from an answer that names a diverging epoch
        (KAFKA-14704)."""
        self.truncation_follows_epochs = rule(Fix.KIP_101)
        """A follower truncates by leader epochs, not to its high watermark (KIP-101)."""
        self.unclean_leader_needs_permission = rule(Fix.KIP_106)
        """A replica outside the ISR becomes leader only if `unclean.leader.election.enable` allows it (KIP-106)."""
        self.unknown_epoch_ends_with_one_before = rule(Fix.KIP_279)
        """A leader without the follower's last epoch answers with the end of the largest one before it (KIP-279)."""
        self.bounced_broker_is_noticed = rule(Fix.KIP_380)
        """The controller notices a broker that has registered again between two looks at the list of brokers
        (KIP-380)."""
        self.high_watermark_waits_for_proposed_isr = rule(Fix.KIP_497)
        """The high watermark waits for the replicas of an ISR that the controller has not decided yet (KIP-497)."""
        self.stop_replica_of_old_epoch_is_refused = rule(Fix.KIP_570)
        """A broker refuses a StopReplica with an older leader epoch than its own (KIP-570)."""
        self.high_watermark_needs_min_isr = rule(Fix.KIP_966)
        """The high watermark stays while the ISR is smaller than `min.insync.replicas` (KIP-966)."""
