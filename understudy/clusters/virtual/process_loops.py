"""The event loops that asyncio gives to code of a process which asks for one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from understudy.clusters.virtual import blocking
from understudy.clusters.virtual.current import current_loop
from understudy.clusters.virtual.main_loop import new_main_loop
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.refusals import refusal
from understudy.clusters.virtual.replacement import replace_everywhere


def install() -> None:
    """Let asyncio make loops of the simulation for a process."""
    give_loop(asyncio.BaseEventLoop)
    name = "_set_event_loop_policy" if sys.version_info >= (3, 14) else "set_event_loop_policy"
    replace_everywhere(asyncio.events, name, _policy_setter(getattr(asyncio.events, name)))


def give_loop(owner: Any) -> None:
    """Let a class of event loops, asyncio's or uvloop's, give a process the loop of the simulation."""
    create = owner.__new__

    def new(cls: Any, *given: Any, **named: Any) -> Any:
        loop = current_loop()
        if loop is not None:
            return _new_loop(loop)
        return create(cls) if create is object.__new__ else create(cls, *given, **named)

    owner.__new__ = new


def _new_loop(loop: ProcessLoop) -> ProcessLoop:
    return new_main_loop(loop.of_process)


class _Policy(asyncio.AbstractEventLoopPolicy):
    """The policy of the whole operating system process, which keeps apart the loops of processes and threads."""

    def __init__(self, original: Any) -> None:
        self.original = original
        self._loops: dict[Any, Any] = {}
        self._chosen: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def get_event_loop(self) -> Any:
        loop = current_loop()
        if loop is None:
            return self.original.get_event_loop()
        owner = blocking.current_code() or loop.process
        if self._loops.get(owner) is None:
            self._loops[owner] = _new_loop(loop)
        return self._loops[owner]

    def set_event_loop(self, loop: Any) -> None:
        running = current_loop()
        if running is None:
            self.original.set_event_loop(loop)
        else:
            self._loops[blocking.current_code() or running.process] = loop

    def new_event_loop(self) -> Any:
        loop = current_loop()
        if loop is None:
            return self.original.new_event_loop()
        chosen = self._chosen.get(loop.process)
        made = _new_loop(loop) if chosen is None else chosen.new_event_loop()
        if not isinstance(made, ProcessLoop):
            hint = "asyncio's and uvloop's are simulated: set no policy of event loops here"
            refusal(f"an event loop of the class {type(made).__module__}.{type(made).__qualname__}", hint)
        return made

    def choose(self, loop: ProcessLoop, policy: Any) -> None:
        """Let the policy that a process sets make its loops; None for asyncio's own."""
        self._chosen[loop.process] = policy

    def get_child_watcher(self) -> Any:
        """Return the watcher of real child processes, which real loops ask for before Python 3.14."""
        return self.original.get_child_watcher()

    def set_child_watcher(self, watcher: Any) -> None:
        self.original.set_child_watcher(watcher)


def _policy_setter(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """`asyncio.set_event_loop_policy` of one process: `uvloop.install()` in a service leaves the others as they are."""

    def set_event_loop_policy(policy: Any) -> None:
        loop = current_loop()
        if loop is None:
            original(policy)
        elif policy is not None and not isinstance(policy, asyncio.AbstractEventLoopPolicy):
            raise TypeError(f"policy must be an instance of AbstractEventLoopPolicy or None, not '{type(policy)}'")
        else:
            _installed_policy().choose(loop, policy)

    return set_event_loop_policy


def _installed_policy() -> Any:
    events: Any = asyncio.events
    return events._get_event_loop_policy() if sys.version_info >= (3, 14) else asyncio.get_event_loop_policy()


def install_policy() -> None:
    """Put the policy in place that keeps the processes apart. Harmless if it is there."""
    policy = _installed_policy()
    if not isinstance(policy, _Policy):
        events: Any = asyncio.events
        events._event_loop_policy = _Policy(policy)
