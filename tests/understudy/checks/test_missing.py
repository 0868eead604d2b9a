"""What contradicts an invariant only because records are missing is no violation; what contradicts it anyway is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.understudy.checks import controller_histories, test_checks
from tests.understudy.checks.controller_histories import queued, started
from tests.understudy.checks.histories import ACCEPTED, REJECTED, History, WriteHistory
from understudy.checks.client_history import CLIENT_CHECKS, ClientHistory, SendingProducer, SendOutcome, check_clients
from understudy.checks.client_history import Send as ClientSend
from understudy.checks.groups import GROUP_CHECKS
from understudy.checks.invariant_checker import ALL_CHECKS, InvariantChecker
from understudy.checks.missing import MissingEvidence, MissingStretch, RefutedBy
from understudy.foundation.eventlog.records import Envelope

assert test_checks.MODULES, "the histories are registered when their modules are imported"

CHECKS = {check.id: check for check in ALL_CHECKS}
EVERYTHING = MissingEvidence([MissingStretch()], has_znodes=False)


def judged(check: str, history: History, missing: MissingEvidence) -> str:
    """Return the verdict of one check: `held`, `violated` or why it cannot be judged."""
    checker = InvariantChecker([CHECKS[check]], missing)
    if checker.run(history.records, history.transactions):
        return "violated"
    return checker.unjudged[0].why if checker.unjudged else "held"


def with_a_part_missing(
    records: Mapping[str, Sequence[Envelope]],
) -> Iterator[tuple[dict[str, list[Envelope]], MissingStretch]]:
    """Yield the records without each beginning, each end and each single record of each incarnation."""
    for node, own in records.items():
        for incarnation in sorted({record.incarnation for record in own}):
            places = [place for place, record in enumerate(own) if record.incarnation == incarnation]
            first, last = places[0], places[-1]
            for begin, end in {(a, b) for at in places for a, b in ((first, at), (at, last), (at, at))}:
                from_ms = own[begin - 1].mono_ms if begin > first else float("-inf")
                rest = [*own[:begin], *own[end + 1 :]]
                yield (
                    {**{name: list(each) for name, each in records.items()}, node: rest},
                    MissingStretch(node, incarnation, from_ms),
                )


@pytest.mark.parametrize(
    ("check", "write"), [pytest.param(*case, id=f"{case[0]}-{case[1].__name__}") for case in ACCEPTED]
)
def test_without_any_part_of_a_log_no_check_rejects_a_history_that_it_accepts(check: str, write: WriteHistory) -> None:
    history = write()
    for records, stretch in with_a_part_missing(history.records):
        checker = InvariantChecker([CHECKS[check]], MissingEvidence([stretch]))
        assert checker.run(records, history.transactions) == [], stretch


@pytest.mark.parametrize(
    ("check", "write"), [pytest.param(case[0], case[2], id=f"{case[0]}-{case[2].__name__}") for case in REJECTED]
)
def test_a_contradiction_is_found_whatever_is_missing(check: str, write: WriteHistory) -> None:
    """It is a violation, or cannot be judged; with the testbed's log alone missing it is a violation."""
    assert judged(check, write(), EVERYTHING) != "held"
    assert judged(check, write(), MissingEvidence([MissingStretch("testbed")])) == "violated"
    if CHECKS[check].refuted_by is RefutedBy.NOTHING:
        assert judged(check, write(), EVERYTHING) == "violated"


def test_every_check_declares_what_could_refute_it() -> None:
    for check in (*ALL_CHECKS, *CLIENT_CHECKS, *GROUP_CHECKS):
        assert isinstance(vars(check).get("refuted_by"), RefutedBy), check


def test_two_controllers_of_one_epoch_are_a_violation_whatever_is_missing() -> None:
    history = controller_histories.two_brokers_are_elected_at_one_epoch()
    assert judged("C1", history, EVERYTHING) == "violated"


@pytest.mark.parametrize(
    ("stretch", "verdict"),
    [
        (MissingStretch("broker-1", 2, 5.0), "records of broker-1 incarnation 2 are missing"),
        (MissingStretch("broker-1"), "records of broker-1 are missing"),
        (MissingStretch(), "records of an unknown node are missing"),
        (MissingStretch("broker-1", 2, 15.0), "violated"),
        (MissingStretch("broker-1", 1), "violated"),
        (MissingStretch("broker-2"), "violated"),
    ],
)
def test_only_earlier_records_of_the_incarnation_refute_what_follows_from_its_state(
    stretch: MissingStretch, verdict: str
) -> None:
    history = History()
    history.log(1, queued(1), incarnation=1)
    history.log(1, queued(1), started(2), incarnation=2, at_ms=10.0)
    assert judged("C7", history, MissingEvidence([stretch])) == verdict


@pytest.mark.parametrize(
    ("stretch", "verdict"),
    [
        (MissingStretch("broker-1", 1, 40_000.0), "records of broker-1 incarnation 1 are missing"),
        (MissingStretch("broker-1", 2), "violated"),
        (MissingStretch("broker-2", 1), "violated"),
    ],
)
def test_later_records_of_the_incarnation_refute_that_an_event_has_not_ended(
    stretch: MissingStretch, verdict: str
) -> None:
    history = controller_histories.an_event_does_not_end_while_the_broker_goes_on()
    assert judged("L6", history, MissingEvidence([stretch])) == verdict


def test_records_of_earlier_incarnations_of_the_node_refute_what_follows_from_its_log() -> None:
    (write,) = (write for check, witness, write in REJECTED if check == "R1" and "though the log ends at" in witness)
    (node,) = (
        node
        for node in ("broker-1", "broker-2", "broker-3")
        if judged("R1", write(), MissingEvidence([MissingStretch(node, 1)])) != "violated"
    )
    assert judged("R1", write(), MissingEvidence([MissingStretch(node, 9)])) == "violated"


def test_what_the_history_of_the_znodes_could_refute_is_not_judged_without_it() -> None:
    for check in CHECKS.values():
        writes = [write for of, _, write in REJECTED if of == check.id and not write().transactions]
        found = {judged(check.id, write(), MissingEvidence(has_znodes=False)) for write in writes}
        if RefutedBy.ZNODES not in check.refuted_by:
            assert found <= {"violated"}, check.id
        elif writes:
            assert "there is no history of the znodes" in found, check.id


def test_a_violation_comes_before_what_cannot_be_judged() -> None:
    history = History()
    history.log(1, queued(1), started(2), incarnation=1)
    history.log(2, queued(1), started(2), incarnation=1)
    checker = InvariantChecker(missing=MissingEvidence([MissingStretch("broker-1")]))
    (violation,) = checker.run(history.records, [])
    assert str(violation).startswith("C7 violated at broker-2/1#2: ")
    assert checker.unjudged == []


def test_what_cannot_be_judged_says_why_and_what_was_found() -> None:
    history = History()
    history.log(1, queued(1), started(2))
    checker = InvariantChecker(missing=MissingEvidence([MissingStretch("broker-1")]))
    assert checker.run(history.records, []) == []
    (unjudged,) = checker.unjudged
    assert str(unjudged).startswith(
        "C7 cannot be judged at broker-1/1#2, because records of broker-1 are missing: "
        "BrokerChange 2 started, though 1 was first in the queue. It should hold that a controller"
    )


def test_what_clients_have_seen_is_excused_by_losses_that_missing_records_may_show() -> None:
    producer = SendingProducer("p")
    sends = [ClientSend(producer, ("t", 0), str(number), SendOutcome.OK, 0, key=None) for number in range(2)]
    history = ClientHistory(sends=sends, read_to_the_end={("t", 0)})
    assert {each.check for each in check_clients(history).violations} >= {"H1", "H2"}
    found = check_clients(history, MissingEvidence([MissingStretch("broker-2")]))
    assert found.violations == []
    assert {each.why for each in found.unjudged} == {"records of broker-2 are missing"}
    assert {each.check for each in found.unjudged} >= {"H1", "H2"}
