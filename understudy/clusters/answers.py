"""Arms answers at the brokers of a cluster: the next requests of one kind get an error, or a throttle time.

`armed_answer` checks what a person has asked for, `ArmsAnswers` gives it to a broker, and an `AnswerHandle` counts how
often the broker has answered so. `understudy.foundation.wire.armed_answers` is what the broker does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from understudy.clusters.nearest_word import did_you_mean
from understudy.clusters.problems import BadValue, one_of
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.armed_answers import CLIENT_APIS, ArmedAnswer
from understudy.foundation.wire.error_answers import Only, has_throttle_time, levels_of

WAIT_TIMEOUT_S: Final = 30.0
MOST_TIMES: Final = 1_000_000
MOST_THROTTLE_MS: Final = 2**31 - 1
APPLY, IGNORE = "apply", "ignore"
"""What happens to a request beside its answer."""


def armed_answer(
    api: str,
    error: str = Errors.NONE.name,
    *,
    times: int = 1,
    topic: str = "",
    partition: int | None = None,
    client_id: str = "",
    then: str | None = None,
    throttle_ms: int = 0,
) -> ArmedAnswer:
    """Return an answer that can be armed at a broker, which gives it its name.

    Args:
        then: `apply` or `ignore`; None for `ignore`, or for `apply` if the answer is only throttled.

    Raises:
        BadValue: a value does not exist or is out of range, or two of them do not fit. The message names the value and
            the expected ones.
    """
    kind = next((each for each in CLIENT_APIS if each.name == api), None)
    if kind is None:
        raise one_of(api, [each.name for each in CLIENT_APIS], "request of clients")
    if error not in Errors.__members__:
        near = did_you_mean(error, Errors.__members__)
        raise BadValue(f"{error!r} is no error of Kafka{near}; expected for example NOT_LEADER_OR_FOLLOWER")
    levels = levels_of(kind.response, kind.max_version)
    if topic and not levels.have(Only(topic)):
        raise BadValue(f"{api} requests are about no topic; leave out {topic!r}")
    if partition is not None and not topic:
        raise BadValue(f"partition {partition} needs a topic")
    if partition is not None and (partition < 0 or not levels.have(Only(topic, "", partition))):
        raise BadValue(f"{api} answers have no partition {partition}; leave it out")
    if not 1 <= times <= MOST_TIMES:
        raise BadValue(f"{times} is no number of times; expected 1 to {MOST_TIMES:,}")
    if not 0 <= throttle_ms <= MOST_THROTTLE_MS:
        raise BadValue(f"{throttle_ms} is no throttle time; expected 0 to {MOST_THROTTLE_MS:,} milliseconds")
    is_error = error != Errors.NONE.name
    if not is_error and (not throttle_ms or not has_throttle_time(kind.response, kind.max_version)):
        raise BadValue("an answer needs an error other than NONE, or a throttle time that its kind has")
    if then not in (None, APPLY, IGNORE):
        raise one_of(then, (APPLY, IGNORE), "way to treat a request")
    if not is_error and then == IGNORE:
        raise BadValue("a request whose answer is only throttled cannot be ignored; leave it out, or name an error")
    return ArmedAnswer(
        name="",
        api=api,
        error=error,
        times=times,
        topic=topic,
        partition=partition,
        client_id=client_id,
        is_applied=then == APPLY or not is_error,
        throttle_ms=throttle_ms,
    )


class WaitUntil(Protocol):
    """The method `wait_until` of a cluster."""

    def __call__(self, condition: Callable[[], int | None], what: str, timeout_s: float) -> int: ...


@dataclass(frozen=True, slots=True)
class AnswerHandle:
    """An answer that is armed at one broker, or at each of several.

    Attributes:
        answer: the answer, with the name that it has at the first broker.
        broker: the name of the broker, or of each of them.
        count: returns how often they have given the answer.
        wait_until: waits for a condition, as long as the cluster's own clock says.
    """

    answer: ArmedAnswer
    broker: str
    count: Callable[[], int]
    wait_until: WaitUntil

    @property
    def name(self) -> str:
        """Its name in the event log, which no other armed answer of this broker has."""
        return self.answer.name

    @property
    def id(self) -> str:
        """The name of the broker and its own name: no other armed answer of the cluster has it."""
        return f"{self.broker}/{self.name}"

    @property
    def hits(self) -> int:
        """The number of requests that were answered so."""
        return self.count()

    @property
    def is_used_up(self) -> bool:
        """Whether as many requests were answered so as it is armed for."""
        return self.hits >= self.answer.times

    @property
    def missed(self) -> str:
        """The message about an answer that was never given."""
        return f"answer: {self.broker} received no request for {self.answer}"

    def wait(self, hits: int | None = None, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until a number of requests was answered so, and return their number.

        Args:
            hits: None for as many as it is armed for.

        Raises:
            WaitTimedOut: there were fewer within `timeout_s` seconds.
            ClusterError: meanwhile a broker ended although no fault was injected into it.
        """
        wanted = self.answer.times if hits is None else hits
        what = f"{self.broker} has given {wanted} times the answer {self.answer}"
        return self.wait_until(lambda: self.hits if self.hits >= wanted else None, what, timeout_s)


def arm_at(brokers: Sequence[ArmsAnswers], answer: ArmedAnswer, armed: list[AnswerHandle]) -> AnswerHandle:
    """Arm an answer at each of some brokers, for as many requests each, and return one handle for all of them.

    It is given if any of the brokers has given it: a client chooses the broker that it asks.

    Args:
        armed: the answers that were armed at the brokers of the cluster; of these brokers it gets the one handle.
    """
    handles = [broker.arm_answer(answer) for broker in brokers]
    if len(handles) == 1:
        return handles[0]
    names = ", ".join(handle.broker for handle in handles)
    first = handles[0]
    together = AnswerHandle(first.answer, names, lambda: sum(handle.hits for handle in handles), first.wait_until)
    armed[:] = [*(each for each in armed if not any(each is handle for handle in handles)), together]
    return together


class ArmsAnswers(Protocol):
    """A broker at which answers can be armed."""

    def arm_answer(self, answer: ArmedAnswer) -> AnswerHandle:
        """Arm an answer of `armed_answer`, and record that in the event log. The broker need not be running."""

    def answer(
        self,
        api: str,
        error: str = Errors.NONE.name,
        *,
        times: int = 1,
        topic: str = "",
        partition: int | None = None,
        client_id: str = "",
        then: str | None = None,
        throttle_ms: int = 0,
    ) -> AnswerHandle:
        """Answer the next requests of one kind with an error of Kafka's, or with a throttle time.

        Requests of other brokers count only if `client_id` names theirs, and a Produce with acks=0 never.

        Args:
            api: Kafka's name of the request, for example `Produce`.
            error: Kafka's name of the error, for example `NOT_LEADER_OR_FOLLOWER`; `NONE` for a throttle time alone.
            times: the number of requests.
            topic: the topic that they name, to which the error is limited; empty for all that they name.
            partition: one of its partitions; None for all that they name.
            client_id: the client id of their senders; empty for any client.
            then: `ignore`: they are not handled, the default; `apply`: they are, and the codes of their answers are
                replaced.
            throttle_ms: the throttle time in the answers, in milliseconds. The broker itself does not delay them.

        Raises:
            BadValue: as `armed_answer`.
        """
        return self.arm_answer(
            armed_answer(
                api,
                error,
                times=times,
                topic=topic,
                partition=partition,
                client_id=client_id,
                then=then,
                throttle_ms=throttle_ms,
            )
        )
