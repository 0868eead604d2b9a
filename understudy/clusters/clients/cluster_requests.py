"""`ClusterRequests` sends a request to any broker, to one, to the controller, to a coordinator, or to leaders.

Requests that get no answer, or whose answer says that another broker has to be asked, are sent again until the time for
the call is over. In ZooKeeper mode brokers forward none of them to the controller (KIP-590). A subclass may send a
request over another connection, and choose another exception for an error code. Mirrors the part of
`org.apache.kafka.clients.admin.KafkaAdminClient` that chooses brokers and retries calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Protocol, TypeVar

from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, metadata_request
from understudy.clusters.clients.group_coordinator_link import MOVED
from understudy.foundation.cluster.errors import ApiError, Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.messages.metadata import MetadataResponse
from understudy.foundation.wire.nested_topics import by_partition
from understudy.foundation.wire.network import Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message

RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS = 100, 1_000
"""`retry.backoff.ms` and `retry.backoff.max.ms` of Kafka's admin client: each pause is twice the last (KIP-580)."""
ONE_COORDINATOR: Final = 3
"""The last version of FindCoordinator that asks about one group."""
_NO_CODES: Final = frozenset[int]()
_NO_CONTROLLER: Final = frozenset({Errors.NOT_CONTROLLER})
NO_COORDINATOR: Final = MOVED | {Errors.COORDINATOR_LOAD_IN_PROGRESS}
"""The errors of a broker that does not coordinate a group, or not yet."""


class TryAgain(Exception):
    """The answer says that the request may succeed later or elsewhere. The message is the reason."""


class NoBrokerAnswers(Exception):
    """No broker answered the request in time. The message names the brokers and the last error."""


class HasError(Protocol):
    """The part of an answer about one partition."""

    @property
    def error_code(self) -> int: ...


R = TypeVar("R", bound=Message)
T = TypeVar("T")
V = TypeVar("V")
H = TypeVar("H", bound=HasError)


class ClusterRequests:
    """Chooses the brokers to ask, repeats requests, and raises an exception for a refusal.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers; the next request begins with that one.
        timeout_ms: the time that one call may take, its retries included.
        request_timeout_ms: the time that a broker may take for one request; None for the whole time of a call.
    """

    negotiates: ClassVar[bool] = False
    """Whether a broker is first asked for its versions; otherwise it must serve the newest."""

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str = "understudy-admin",
        timeout_ms: int = 30_000,
        request_timeout_ms: int | None = None,
    ) -> None:
        self._network = network
        self._bootstrap = deque(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._request_timeout_ms = timeout_ms if request_timeout_ms is None else request_timeout_ms

    async def metadata(self, topics: Iterable[str] | None = None, *, call: str = "listTopics") -> MetadataResponse:
        """Return the metadata of `topics` (None: of all topics) from the first broker that answers."""
        return await self.ask_any(metadata_request(topics), MetadataResponse, call=call)

    async def ask_any(
        self, request: Message, response: type[R], *, call: str | None = None, max_version: int | None = None
    ) -> R:
        """Send a request to any broker.

        Args:
            call: the name of the call in the error after a timeout; None for the name of the request.
            max_version: the newest version to send, if newer ones have another form.

        Raises:
            NoBrokerAnswers, or the subclass's exception instead: no broker answered in time.
        """
        return await self._retried(lambda: self._try_any(request, response, max_version), call or _call(request))

    async def ask_broker(
        self,
        broker: int | str,
        request: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        again_after: Collection[int] = _NO_CODES,
    ) -> R:
        """Send a request to one broker, and wait while the metadata does not have it; raises as `ask_any`.

        Args:
            again_after: the error codes in an answer after which the request is sent again.
        """
        return await self._retried(
            lambda: self._try_broker(broker, request, response, again_after), _call(request), timeout_ms
        )

    async def ask_controller(self, request: Message, response: type[R], *, max_version: int | None = None) -> R:
        """Send a request to the controller, and to its successor after a failover; raises as `ask_any`."""
        return await self._retried(
            lambda: self._try_broker(None, request, response, _NO_CONTROLLER, max_version), _call(request)
        )

    async def ask_coordinator(
        self, group: str, request: Message, response: type[R], *, max_version: int | None = None
    ) -> tuple[FindCoordinatorResponse, R]:
        """Send a request to a group's coordinator; return the coordinator and its answer.

        Raises as `ask_any`, and the exception for a refusal if there is no coordinator.
        """

        async def attempt() -> tuple[FindCoordinatorResponse, R]:
            asked = FindCoordinatorRequest(key=group)
            found = await self._try_any(asked, FindCoordinatorResponse, ONE_COORDINATOR, NO_COORDINATOR)
            self._check(found.error_code, found.error_message, group)
            return found, await self._try_broker(found.node_id, request, response, NO_COORDINATOR, max_version)

        return await self._retried(attempt, _call(request))

    async def ask_leaders(
        self,
        values: Mapping[TopicPartition, V],
        request_of: Callable[[Mapping[TopicPartition, V]], Message],
        response: type[R],
        results_of: Callable[[R], Mapping[TopicPartition, H]],
        *,
        again_after: Collection[int],
    ) -> dict[TopicPartition, H]:
        """Send the values of partitions to their leaders, one request to each leader, again while leaders move.

        Args:
            request_of: makes the request to one leader.
            results_of: returns the part of an answer about each partition.
            again_after: the errors of a partition after which its leader is looked for again.

        Returns:
            The leaders' answers by partition; a partition without a leader that answers in time is missing.
        """
        found: dict[TopicPartition, H] = {}

        async def attempt() -> None:
            left = [each for each in values if each not in found]
            leaders = await self._leaders_of(left)
            for leader in sorted(set(leaders.values())):
                asked = {each: values[each] for each in left if leaders.get(each) == leader}
                results = results_of(await self._try_broker(leader, request_of(asked), response))
                found.update((each, got) for each, got in results.items() if got.error_code not in again_after)
            if len(found) < len(values):
                raise TryAgain("partitions have no leader")

        with contextlib.suppress(NoBrokerAnswers):
            await self._repeated(attempt, self._timeout_ms)
        return found

    async def _retried(self, attempt: Callable[[], Awaitable[T]], call: str, timeout_ms: int | None = None) -> T:
        """Repeat `attempt` while it raises TryAgain or gets no answer, as during a failover; raises as `ask_any`.

        Args:
            timeout_ms: the time for all attempts; None for the time that every call has.
        """
        try:
            return await self._repeated(attempt, self._timeout_ms if timeout_ms is None else timeout_ms)
        except NoBrokerAnswers as late:
            raise self._too_late(call, late) from None

    # ------------------------------------------------------------------ what subclasses may do otherwise

    async def ask(self, host: str, port: int, request: Message, *, version: int | None = None) -> Message:
        """Send one request to one broker over a new connection, and return the response.

        Args:
            version: the version of the request; None for the newest.

        Raises:
            ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage: there is no answer.
        """
        with contextlib.closing(await self._connect(host, port)) as channel:
            api_version = api_of(request).max_version if version is None else version
            return await channel.request(request, api_version, timeout_ms=self._request_timeout_ms)

    async def _connect(self, host: str, port: int) -> RequestChannel:
        connection = await self._network.connect(host, port, timeout_ms=self._request_timeout_ms)
        return RequestChannel(connection, client_id=self._client_id)

    def _refusal(self, code: int, message: str | None, what: str) -> Exception:
        """Return the exception for an error code in an answer.

        Args:
            message: the message that came with it.
            what: the topic or the like that was refused.
        """
        error = error_for_code(code)
        reason = message or ("no reason given" if error == code else error_name(code))
        return ApiError(error, f"{what}: {reason}")

    def _too_late(self, call: str, late: NoBrokerAnswers) -> Exception:
        """Return the exception for a call that got no answer in time."""
        return late

    # ------------------------------------------------------------------ one attempt

    def _check(self, code: int, message: str | None, what: str) -> None:
        """Raise the exception for an error code, unless it is NONE."""
        if code != Errors.NONE:
            raise self._refusal(code, message, what)

    async def _try_any(
        self,
        request: Message,
        response: type[R],
        max_version: int | None = None,
        again_after: Collection[int] = _NO_CODES,
    ) -> R:
        """Send a request once to the first broker that answers; raises TryAgain if none does."""
        failure = "no bootstrap server was given"
        for address in tuple(self._bootstrap):
            host, _, port = address.rpartition(":")
            try:
                answer = await self.ask(
                    host.removeprefix("[").removesuffix("]"), int(port), request, version=max_version
                )
            except (*NOT_SENT, *NO_ANSWER) as error:
                failure = f"none of {', '.join(self._bootstrap)} answers; the last one: {error}"
            else:
                self._bootstrap.rotate(-self._bootstrap.index(address))
                return _checked(answer, response, again_after, address)
        raise TryAgain(failure)

    async def _try_broker(
        self,
        broker: int | str | None,
        request: Message,
        response: type[R],
        again_after: Collection[int] = _NO_CODES,
        max_version: int | None = None,
    ) -> R:
        """Send a request once to a broker (None: the controller); raises TryAgain if the metadata does not have it."""
        metadata = await self._try_any(metadata_request(()), MetadataResponse)
        wanted = str(metadata.controller_id if broker is None else broker)
        for known in metadata.brokers:
            if str(known.node_id) == wanted:
                answer = await self.ask(known.host, known.port, request, version=max_version)
                return _checked(answer, response, again_after, f"broker {wanted}")
        what = "there is no controller" if broker is None else f"broker {broker} is not"
        raise TryAgain(f"{what} in the metadata")

    async def _leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the live leaders of `partitions`; partitions without one are missing."""
        wanted = set(partitions)
        topics = sorted({partition.topic for partition in wanted})
        metadata = await self._try_any(metadata_request(topics), MetadataResponse)
        live = {broker.node_id for broker in metadata.brokers}
        states = by_partition(metadata.topics)
        return {each: states[each].leader_id for each in states if each in wanted and states[each].leader_id in live}

    async def _repeated(self, attempt: Callable[[], Awaitable[T]], limit_ms: int) -> T:
        """Repeat `attempt` until it returns something; raises NoBrokerAnswers when the time is over."""
        reason, backoff_ms = "no request was sent", RETRY_BACKOFF_MS
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except (TryAgain, *NOT_SENT, *NO_ANSWER) as error:
                        reason = str(error)
                    # The metadata of a broker may be old: another one may have newer metadata.
                    self._bootstrap.rotate(-1)
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        except TimeoutError:
            raise NoBrokerAnswers(
                f"no answer from {', '.join(self._bootstrap)} within {limit_ms} ms: {reason}"
            ) from None


def error_codes(answer: object) -> Iterator[int]:
    """Return every error code in an answer, at any depth."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from error_codes(each)
    elif isinstance(answer, Message):
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            yield from (value,) if name == "error_code" else error_codes(value)


def _call(request: Message) -> str:
    """Return the name of a request as Kafka's client has it: `createTopics`."""
    name = api_of(request).name
    return name[0].lower() + name[1:]


def _checked(answer: Message, response: type[R], again_after: Collection[int], who: str) -> R:
    """Return an answer with its type; raises TryAgain if it has an error after which others may be asked."""
    assert isinstance(answer, response)
    if again_after:
        for code in error_codes(answer):
            if code in again_after:
                raise TryAgain(f"{who} answers {error_name(code)}")
    return answer
