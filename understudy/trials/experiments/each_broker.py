"""Actions of steps that do the same to each broker on its own; for the tables of all engines."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from understudy.trials.experiments.engine import Undo

FLAP_MS: Final = 500.0
CRASH_LOOP_MS: Final = 2_000.0
STUTTER_MS: Final = 1_000.0
"""How often a fault that repeats does so, by default."""
STARVE_MS: Final = 200.0
"""How long a starved broker runs and is stopped, together."""

E = TypeVar("E")
B = TypeVar("B")


def on_each(
    act: Callable[[B], object], undo: Callable[[B], object] | None = None
) -> Callable[[E, Sequence[B], Any, Mapping[str, Any]], Undo | None]:
    """Return the action that does `act` to each broker, and whose end does `undo` to each."""

    def perform(engine: E, brokers: Sequence[B], value: Any, options: Mapping[str, Any]) -> Undo | None:
        to_all(act, brokers)
        return None if undo is None else lambda: to_all(undo, brokers)

    return perform


def to_all(act: Callable[[B], object], brokers: Sequence[B]) -> None:
    """Do `act` to each broker, in order."""
    for broker in brokers:
        act(broker)


def begin_repeating(
    act: Callable[[], None], every_ms: float, after: Callable[[float, Callable[[], None]], None]
) -> Undo:
    """Do `act` now and every so many milliseconds; return what ends that."""
    is_over = False

    def turn() -> None:
        if not is_over:
            after(every_ms, turn)
            act()

    def end() -> None:
        nonlocal is_over
        is_over = True

    turn()
    return end


class Stoppable(Protocol):
    """What a stutter and a crash loop do to each broker."""

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


S = TypeVar("S", bound=Stoppable)


def begin_stutter(
    brokers: Sequence[S],
    every_ms: float,
    after: Callable[[float, Callable[[], None]], None],
    resume_if_paused: Callable[[S], object],
) -> Undo:
    """Pause each broker that runs for half of every so many milliseconds; return what ends that and resumes them."""
    is_over = False

    def turn(broker: S) -> None:
        if is_over or not broker.is_running:
            return
        if broker.is_paused:
            broker.resume()
        else:
            broker.pause()
        after(every_ms / 2, lambda: turn(broker))

    def end() -> None:
        nonlocal is_over
        is_over = True
        to_all(resume_if_paused, brokers)

    to_all(turn, brokers)
    return end


def begin_crash_loop(
    brokers: Sequence[S],
    every_ms: float,
    after: Callable[[float, Callable[[], None]], None],
    start: Callable[[S], object],
) -> Undo:
    """Kill brokers that run, and start those that do not, every so many milliseconds; return what ends that.

    Args:
        start: begins to start a broker that is down. At the end it is called with all.
    """

    def turn() -> None:
        for broker in brokers:
            if broker.is_running:
                broker.kill()
            else:
                start(broker)

    end = begin_repeating(turn, every_ms, after)

    def end_and_start() -> None:
        end()
        to_all(start, brokers)

    return end_and_start


class Isolatable(Protocol):
    """What a swizzle does to each broker."""

    def isolate(self) -> None: ...

    def heal(self) -> None: ...


def begin_swizzle(
    brokers: Sequence[Isolatable],
    lasts_ms: float,
    after: Callable[[float, Callable[[], None]], None],
    source: random.Random,
) -> Undo:
    """Isolate brokers one after the other, and heal them one after the other, each in an order that `source` draws.

    Returns:
        What heals those that are isolated, and isolates no further one.
    """
    isolated: list[Isolatable] = []
    is_over = False

    def isolate(broker: Isolatable) -> None:
        if not is_over:
            broker.isolate()
            isolated.append(broker)

    def heal(broker: Isolatable) -> None:
        if broker in isolated:
            isolated.remove(broker)
            broker.heal()

    def end() -> None:
        nonlocal is_over
        is_over = True
        for broker in tuple(isolated):
            heal(broker)

    gap_ms = lasts_ms / (2 * len(brokers))
    for place, broker in enumerate(source.sample(brokers, len(brokers))):
        after(place * gap_ms, _with(isolate, broker))
    for place, broker in enumerate(source.sample(brokers, len(brokers))):
        after(lasts_ms / 2 + place * gap_ms, _with(heal, broker))
    return end


def _with(act: Callable[[B], None], broker: B) -> Callable[[], None]:
    return lambda: act(broker)
