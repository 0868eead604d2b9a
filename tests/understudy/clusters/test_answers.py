"""Tests of arming answers: which ones are refused, how they describe themselves, and how handles count and wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from understudy.clusters.answers import AnswerHandle, ArmsAnswers, arm_at, armed_answer
from understudy.clusters.problems import BadValue
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.armed_answers import CLIENT_APIS, AnswerList, ArmedAnswer
from understudy.foundation.wire.error_answers import has_throttle_time


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"api": "Prodcue"}, "'Prodcue' is no request of clients; did you mean 'Produce'?"),
        ({"api": "LeaderAndIsr"}, "'LeaderAndIsr' is no request of clients"),
        ({"error": "NOT_LEADER"}, "'NOT_LEADER' is no error of Kafka; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ({"api": "Heartbeat", "topic": "orders"}, "Heartbeat requests are about no topic; leave out 'orders'"),
        ({"partition": 0}, "partition 0 needs a topic"),
        ({"topic": "orders", "partition": -1}, "Produce answers have no partition -1"),
        ({"api": "CreateTopics", "topic": "orders", "partition": 0}, "CreateTopics answers have no partition 0"),
        ({"times": 0}, "0 is no number of times; expected 1 to 1,000,000"),
        ({"throttle_ms": -1}, "-1 is no throttle time"),
        ({"throttle_ms": 2**31}, "2147483648 is no throttle time"),
        ({"error": "NONE"}, "an answer needs an error other than NONE, or a throttle time"),
        ({"error": "NONE", "throttle_ms": 5, "then": "ignore"}, "whose answer is only throttled cannot be ignored"),
        ({"then": "aply"}, "'aply' is no way to treat a request; did you mean 'apply'?"),
    ],
)
def test_what_cannot_be_armed_is_refused(values: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"} | values
    with pytest.raises(BadValue) as refused:
        armed_answer(**given)
    assert message in str(refused.value)


def test_every_error_of_every_request_of_clients_can_be_armed() -> None:
    for api in CLIENT_APIS:
        throttle_ms = 1 if has_throttle_time(api.response, api.max_version) else 0
        for error in Errors:
            if error is not Errors.NONE or throttle_ms:
                assert armed_answer(api.name, error.name, throttle_ms=throttle_ms).code is error


def test_only_what_is_asked_for_or_throttled_is_applied() -> None:
    assert not armed_answer("Produce", "NOT_ENOUGH_REPLICAS").is_applied
    assert armed_answer("Produce", "NOT_ENOUGH_REPLICAS", then="apply").is_applied
    assert armed_answer("Produce", throttle_ms=10).is_applied


def test_an_armed_answer_describes_itself() -> None:
    answer = armed_answer(
        "Produce",
        "REQUEST_TIMED_OUT",
        times=3,
        topic="orders",
        partition=0,
        client_id="a",
        then="apply",
        throttle_ms=5,
    )
    assert str(AnswerList().arm(answer)) == (
        "answer-1: 3 × Produce about orders-0 of a answered with REQUEST_TIMED_OUT and throttled for 5 ms and applied"
    )


class Broker(ArmsAnswers):
    """A broker that is asked by hand."""

    def __init__(self, name: str, armed: list[AnswerHandle]) -> None:
        self.name = name
        self.answers = AnswerList()
        self._armed = armed

    def arm_answer(self, answer: ArmedAnswer) -> AnswerHandle:
        found = self.answers.arm(answer)

        def wait_until(condition: Callable[[], int | None], what: str, timeout_s: float) -> int:
            self.answers.count(found)
            return condition() or -1

        self._armed.append(AnswerHandle(found, self.name, lambda: self.answers.given[found.name], wait_until))
        return self._armed[-1]


def test_a_handle_counts_and_waits() -> None:
    armed: list[AnswerHandle] = []
    broker = Broker("broker-1", armed)
    handle = broker.answer("Heartbeat", "REBALANCE_IN_PROGRESS", times=2)
    assert (handle.id, handle.hits, handle.is_used_up) == ("broker-1/answer-1", 0, False)
    assert handle.missed.startswith("answer: broker-1 received no request for answer-1: 2 × Heartbeat")
    assert handle.wait(1) == 1
    assert handle.wait() == 2
    assert handle.is_used_up
    assert armed == [handle]


def test_one_handle_counts_the_answers_of_several_brokers() -> None:
    armed: list[AnswerHandle] = []
    brokers = [Broker("broker-1", armed), Broker("broker-2", armed)]
    earlier = brokers[0].answer("Heartbeat", "REBALANCE_IN_PROGRESS")
    handle = arm_at(brokers, armed_answer("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"), armed)
    assert (handle.broker, handle.hits) == ("broker-1, broker-2", 0)
    assert [each.id for each in armed] == [earlier.id, handle.id]
    (second,) = brokers[1].answers.armed
    brokers[1].answers.count(second)
    assert (handle.hits, handle.is_used_up) == (1, True)
    assert arm_at(brokers[:1], armed_answer("Fetch", throttle_ms=1), armed) is armed[-1]
