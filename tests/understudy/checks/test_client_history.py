"""Each check of clients accepts and rejects the histories it must, and has at least one of each (T4)."""

from __future__ import annotations

import pytest

from understudy.checks.client_history import (
    CLIENT_CHECKS,
    NO_ANSWER,
    NOT_SENT,
    PRODUCE_ERRORS,
    ClientHistory,
    Poll,
    Send,
    SendingProducer,
    SendOutcome,
    check_clients,
)
from understudy.foundation.cluster.errors import Errors

T0, T1 = ("t", 0), ("t", 1)
IDEMPOTENT = SendingProducer("idempotent")
RETRYING = SendingProducer("retrying", never_repeats=False, keeps_order=False)
ONE_IN_FLIGHT = SendingProducer("one-in-flight", never_repeats=False)
ACKS_1 = SendingProducer("acks-1", waits_for_all=False)


def ok(value: str, offset: int, producer: SendingProducer = IDEMPOTENT, partition: tuple[str, int] = T0) -> Send:
    return Send(producer, partition, value, SendOutcome.OK, offset)


def unclear(
    value: str, outcome: SendOutcome, producer: SendingProducer = IDEMPOTENT, errors: tuple[str, ...] = ()
) -> Send:
    return Send(producer, T0, value, outcome, errors=errors)


def failed(*errors: str) -> Send:
    return unclear("f", SendOutcome.FAIL, errors=errors)


def poll(*records: tuple[int, str], final: bool = False, assignment: int = 1, consumer: str = "c") -> Poll:
    return Poll(consumer, assignment, T0, records, final)


def keyed(key: str, value: str, offset: int) -> Send:
    return ok(value, offset)._replace(key=key)


def history(
    *seen: Send | Poll,
    to_the_end: bool = False,
    lost: bool = False,
    without_leader: bool = False,
    without_end: bool = False,
    compacted: bool = False,
) -> ClientHistory:
    return ClientHistory(
        sends=[one for one in seen if isinstance(one, Send)],
        polls=[one for one in seen if isinstance(one, Poll)],
        read_to_the_end={T0} if to_the_end else set(),
        without_leader={T0} if without_leader else set(),
        without_end={T0} if without_end else set(),
        may_have_lost={T0} if lost else set(),
        compacted={T0} if compacted else set(),
    )


A, B, C = ok("a", 0), ok("b", 1), ok("c", 2)

ACCEPTED = {
    "H1": {
        "all is read": history(A, B, C, poll((0, "a"), (1, "b")), poll((0, "a"), (1, "b"), (2, "c"), final=True)),
        "the last record is not read yet": history(A, B, poll((0, "a"), final=True)),
        "the final phase was read by two consumers": history(
            A, B, poll((0, "a"), final=True), poll((1, "b"), final=True, consumer="d"), to_the_end=True
        ),
        "records of acks=1 may be lost": history(ok("a", 0, ACKS_1), poll((1, "b"), final=True), to_the_end=True),
        "an unclean election": history(A, B, poll((0, "a"), final=True), to_the_end=True, lost=True),
        "another partition": history(ok("a", 0, partition=T1), poll((5, "x"), final=True), to_the_end=True),
        "a newer record of the key was read": history(
            keyed("k", "a", 0),
            keyed("l", "b", 1),
            keyed("k", "c", 2),
            poll((1, "b"), (2, "c"), final=True),
            to_the_end=True,
            compacted=True,
        ),
        "nothing is known of the others": history(
            unclear("a", SendOutcome.INFO), unclear("b", SendOutcome.FAIL), poll((7, "x"), final=True), to_the_end=True
        ),
    },
    "H2": {
        "all agree": history(A, B, poll((0, "a"), (1, "b")), poll((0, "a"), assignment=2)),
        "partitions are apart": history(A, ok("b", 0, partition=T1)),
        "an unclean election": history(A, poll((0, "b")), lost=True),
        "a record of acks=1 was replaced": history(ok("x", 0, ACKS_1), A, poll((0, "a"))),
    },
    "H3": {
        "each value is read twice at its offset": history(A, poll((0, "a")), poll((0, "a"), assignment=2)),
        "a producer retries without idempotence": history(ok("a", 1, RETRYING), poll((0, "a"), (1, "a"))),
        "partitions are apart": history(A, ok("a", 5, partition=T1)),
        "an unclean election": history(A, poll((3, "a")), lost=True),
    },
    "H4": {
        "what is not known may be there or not": history(
            A,
            unclear("b", SendOutcome.INFO),
            unclear("c", SendOutcome.INFO),
            unclear("d", SendOutcome.FAIL),
            poll((0, "a"), (1, "b")),
        )
    },
    "H5": {
        "polls follow each other": history(poll((3, "a"), (4, "b")), poll(), poll((5, "c"))),
        "seeks and other consumers": history(
            poll((3, "a")), poll((9, "x"), assignment=2), poll((3, "a"), consumer="d"), poll((4, "b"), assignment=3)
        ),
        "compaction has removed records": history(poll((3, "a"), (5, "b")), poll((9, "c")), compacted=True),
    },
    "H6": {
        "offsets increase": history(A, ok("x", 0, ACKS_1), unclear("i", SendOutcome.INFO), B, ok("c", 4)),
        "several requests are in flight": history(ok("a", 1, RETRYING), ok("b", 0, RETRYING)),
        "partitions are apart": history(B, ok("a", 0, partition=T1)),
        "an unclean election": history(B, A, lost=True),
        "the log was truncated": history(ok("x", 5, ACKS_1), ok("y", 3, ACKS_1)),
    },
    "H7": {
        "all is read": history(A, poll((0, "a"), final=True), to_the_end=True),
        "nothing was appended": history(failed("NOT_ENOUGH_REPLICAS"), to_the_end=True),
        "a partition has no leader": history(A, without_leader=True),
        "a loss of power keeps followers away": history(A, without_end=True, lost=True),
    },
    "H8": {
        "attempts fail before one is acknowledged": history(
            Send(IDEMPOTENT, T0, "a", SendOutcome.OK, 0, ("NoLeader", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"))
        ),
        "every attempt has appended nothing": history(
            failed("NoProducerId", "ConnectionFailed", "NOT_ENOUGH_REPLICAS", "UNKNOWN_TOPIC_OR_PARTITION"),
            failed("MESSAGE_TOO_LARGE"),
        ),
        "the outcome of an attempt is unknown": history(
            unclear("i", SendOutcome.INFO, errors=("ConnectionLost", "NOT_ENOUGH_REPLICAS")),
            unclear("j", SendOutcome.INFO, errors=("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT")),
        ),
    },
}

REJECTED = {
    "H1": {
        "send 1: b at offset 1 of t-0 was acknowledged, and was not read": [
            history(A, keyed("k", "b", 1), poll((0, "a"), final=True), to_the_end=True, compacted=True),
            history(A, B, C, poll((0, "a"), (1, "b"), (2, "c")), poll((0, "a"), (2, "c"), final=True)),
            history(A, B, poll((0, "a"), (1, "b")), poll((0, "a"), final=True), to_the_end=True),
            history(A, B, ok("c", 7, RETRYING), poll((0, "a"), final=True), poll((7, "c"), final=True)),
            history(
                keyed("k", "a", 0), keyed("k", "b", 1), poll((0, "a"), final=True), to_the_end=True, compacted=True
            ),
        ],
        "send 0: a at offset 0 of t-0 was acknowledged, and was not read": [
            history(A, B, to_the_end=True),
            history(keyed("k", "a", 0), keyed("k", "b", 1), poll((1, "b"), final=True)),
            history(keyed("k", "a", 0), keyed("l", "b", 1), poll((1, "b"), final=True), compacted=True),
        ],
    },
    "H2": {
        "poll 0: t-0 has b at offset 0, and a in send 0": [history(A, poll((0, "b")))],
        "poll 1: t-0 has b at offset 0, and a in poll 0": [history(poll((0, "a")), poll((0, "b"), assignment=2))],
        "send 1: t-0 has b at offset 0, and a in send 0": [history(A, ok("b", 0, RETRYING))],
    },
    "H3": {
        "poll 0: t-0 has a at offset 1, and at 0": [history(A, poll((0, "a"), (1, "a")))],
        "poll 1: t-0 has a at offset 1, and at 0": [history(A, poll((0, "a")), poll((1, "a")))],
    },
    "H4": {
        "poll 0: t-0 has d at offset 1, although its send has failed": [
            history(A, unclear("d", SendOutcome.FAIL), poll((0, "a"), (1, "d")))
        ],
        "poll 1: t-0 has z at offset 1, which was never sent": [
            history(A, poll((0, "a")), poll((1, "z"))),
            history(A, ok("z", 1, partition=T1), poll((0, "a")), poll((1, "z"))),
        ],
    },
    "H5": {
        "poll 0: c read offset 5 of t-0 after 3": [history(poll((3, "a"), (5, "b")))],
        "poll 1: c read offset 3 of t-0 after 3": [
            history(poll((3, "a")), poll((3, "a"))),
            history(poll((3, "a")), poll((3, "a")), compacted=True),
        ],
        "poll 2: c read offset 2 of t-0 after 3": [history(poll((3, "a")), poll(), poll((2, "x")))],
    },
    "H6": {
        "send 1: a at offset 0 of t-0 was sent after b at 1": [history(B, A)],
        "send 2: c at offset 1 of t-0 was sent after a at 1": [
            history(ok("a", 1, ONE_IN_FLIGHT), A, ok("c", 1, ONE_IN_FLIGHT))
        ],
    },
    "H7": {
        "send 0: t-0 was not read to its end in the final phase": [
            history(A, B, poll((0, "a"))),
            history(A, B, poll((0, "a"), (1, "b"), final=True), lost=True),
            history(A, without_end=True),
        ],
        "send 1: t-1 was not read to its end in the final phase": [
            history(A, ok("b", 0, partition=T1), poll((0, "a"), final=True), to_the_end=True)
        ],
    },
    "H8": {
        "send 1: f to t-0 has failed, but after NOT_ENOUGH_REPLICAS_AFTER_APPEND it may be appended": [
            history(A, failed("NOT_ENOUGH_REPLICAS_AFTER_APPEND"))
        ],
        "send 0: f to t-0 has failed, but after NOT_LEADER_OR_FOLLOWER it may be appended": [
            history(failed("NoLeader", "NOT_LEADER_OR_FOLLOWER"))
        ],
        "send 0: f to t-0 has failed, but after REQUEST_TIMED_OUT it may be appended": [
            history(failed("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS"))
        ],
        "send 0: f to t-0 has failed, but after ConnectionLost it may be appended": [
            history(failed("ConnectionLost", "NoLeader"))
        ],
        "send 0: f to t-0 has failed without an error": [history(failed())],
        "send 0: i to t-0 got UNKNOWN_ERROR_CODE_999, which is no error of Produce": [
            history(unclear("i", SendOutcome.INFO, errors=("REQUEST_TIMED_OUT", "UNKNOWN_ERROR_CODE_999")))
        ],
        "send 0: a to t-0 got OFFSET_OUT_OF_RANGE, which is no error of Produce": [
            history(Send(IDEMPOTENT, T0, "a", SendOutcome.OK, 0, ("OFFSET_OUT_OF_RANGE",)))
        ],
    },
}


CASES_ACCEPTED = [
    pytest.param(check, seen, id=f"{check}-{name}") for check, cases in ACCEPTED.items() for name, seen in cases.items()
]
CASES_REJECTED = [
    (check, witness, seen)
    for check, cases in REJECTED.items()
    for witness, histories in cases.items()
    for seen in histories
]


@pytest.mark.parametrize(("check", "seen"), CASES_ACCEPTED)
def test_a_check_accepts_the_history(check: str, seen: ClientHistory) -> None:
    assert [violation for violation in check_clients(seen).violations if violation.check == check] == []


@pytest.mark.parametrize(("check", "witness", "seen"), CASES_REJECTED)
def test_a_check_rejects_the_history(check: str, witness: str, seen: ClientHistory) -> None:
    judgement = check_clients(seen)
    found = {violation.check: f"{violation.where}: {violation.witness}" for violation in judgement.violations}
    assert found.get(check) == witness
    assert judgement.times_tested[check] > 0


def test_every_check_has_a_history_to_accept_and_one_to_reject() -> None:
    assert [check.id for check in CLIENT_CHECKS] == list(ACCEPTED) == list(REJECTED)
    assert all(not check.sentence.endswith(".") for check in CLIENT_CHECKS)


def test_errors_of_produce_have_kafkas_names() -> None:
    codes = PRODUCE_ERRORS - NOT_SENT - NO_ANSWER
    assert codes <= {error.name for error in Errors}
    assert "NONE" not in codes


def test_lost_records_are_acknowledged_and_not_read_to_the_end() -> None:
    without_offset = Send(ACKS_1._replace(name="acks-0"), T0, "e", SendOutcome.OK)
    sends = [ok("a", 0), ok("b", 1, ACKS_1), failed("NoLeader"), unclear("d", SendOutcome.INFO), without_offset]
    seen = ClientHistory(sends=sends, polls=[poll((0, "a"), final=True), poll((1, "b"))])
    assert seen.lost() == [], "the partition was not read to its end"
    seen.read_to_the_end.add(T0)
    assert [send.value for send in seen.lost()] == ["b", "e"]
    seen.compacted.add(T0)
    assert seen.lost() == []


def test_an_empty_history_shows_nothing() -> None:
    judgement = check_clients(ClientHistory())
    assert judgement.violations == []
    assert set(judgement.times_tested.values()) == {0}
