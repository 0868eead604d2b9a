"""The faults of single requests between simulated nodes: held, lost, repeated or damaged, as by the proxy of processes.

A request is part of one call of `send` on the end of a connection that has opened it: clients and brokers send one or
several whole requests at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from understudy.clusters.request_rules import KAFKA_ANSWER, KAFKA_REQUEST, Effect, RequestRule, corrupted, shortened

if TYPE_CHECKING:
    from understudy.clusters.simulated.network import SimulatedConnection

_SIZE: Final = Struct(">i")
_SIZE_BYTES: Final = _SIZE.size


class RequestFaults:
    """The rules for requests on one network."""

    def __init__(self) -> None:
        self._rules: list[RequestRule] = []
        self._held: dict[str, list[SimulatedConnection]] = {}
        """The ends that a rule holds, by its name."""
        self._missed: list[str] = []
        self.is_used = False
        """Whether there has been a rule; otherwise `send` need not be called."""

    def add(self, rule: RequestRule) -> None:
        """Apply a rule to requests that are sent from now on."""
        self.is_used = True
        self._rules.append(rule)

    def remove(self, name: str) -> None:
        """End a rule, and send the requests that it holds. Harmless if there is none of this name."""
        self._missed += [rule.missed for rule in self._rules if rule.name == name and not rule.applied]
        self._rules = [rule for rule in self._rules if rule.name != name]
        for end in self._held.pop(name, ()):
            end.release()

    def clear(self) -> None:
        """End every rule, and send what they hold."""
        self._rules.clear()
        self._missed.clear()
        for name in tuple(self._held):
            self.remove(name)

    def not_injected(self) -> list[str]:
        """The rules that have found no request so far, in words."""
        return [*self._missed, *(rule.missed for rule in self._rules if not rule.applied)]

    def send(self, end: SimulatedConnection, data: bytes) -> None:
        """Transmit the data that an end sends, with the effect of the first rule that selects the request."""
        if not end.has_opened:
            is_answer = len(data) >= KAFKA_ANSWER.size
            if is_answer and end.is_lost(KAFKA_ANSWER.unpack_from(data)[1]):
                end.break_both()
            else:
                end.transmit(data)
            return
        for request in _requests(data):
            self._send_request(end, request)

    def _send_request(self, end: SimulatedConnection, data: bytes) -> None:
        if len(data) >= KAFKA_REQUEST.size:
            size, api, _, correlation_id = KAFKA_REQUEST.unpack_from(data)
            source, destination = end.nodes
            for rule in self._rules if size + _SIZE_BYTES == len(data) else ():
                is_between = source in rule.sources and destination in rule.destinations
                if is_between and rule.selects(api, is_whole=True):
                    self._apply(rule, end, data, correlation_id)
                    return
        end.transmit(data)

    def _apply(self, rule: RequestRule, end: SimulatedConnection, data: bytes, correlation_id: int) -> None:
        match rule.effect:
            case Effect.HOLD:
                end.hold()
                end.transmit(data)
                self._held.setdefault(rule.name, []).append(end)
            case Effect.DELAY:
                end.hold()
                end.transmit(data)
                end.release_after(rule.delay_ms)
            case Effect.LOSE_ANSWER:
                end.lose_answer(correlation_id)
                end.transmit(data)
            case Effect.CUT_BEFORE:
                end.break_both()
            case Effect.CUT_AFTER:
                end.transmit(data)
                end.break_after_sending()
            case Effect.DUPLICATE:
                end.transmit(data)
                end.send_again(data)
            case Effect.CORRUPT:
                end.transmit(corrupted(data, rule.count))
            case Effect.SHORTEN:
                end.transmit(shortened(data, rule.count))


def _requests(data: bytes) -> Iterator[bytes]:
    """Cut what a client writes at once into its requests; bytes that are no whole request stay in one piece."""
    start = 0
    while len(data) - start >= _SIZE_BYTES:
        end = start + _SIZE_BYTES + _SIZE.unpack_from(data, start)[0]
        if not start < end < len(data):
            break
        yield data[start:end]
        start = end
    yield data[start:]
