"""Code that blocks in virtual time: main functions without `async`, and functions in executors.

Such code runs in a greenlet, which switches to the kernel while it waits. Without the package greenlet a function in an
executor may sleep: its result is there later, by what it has slept.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.refusals import refusal

try:
    import greenlet
except ImportError:  # an optional dependency
    greenlet = None

_T = TypeVar("_T")

_loop_of_greenlet: dict[Any, ProcessLoop] = {}
_executing: ProcessLoop | None = None
_slept_s = 0.0


def current_loop() -> ProcessLoop | None:
    """The loop of the blocking code that runs now; None if none runs."""
    if _executing is not None:
        return _executing
    return _loop_of_greenlet.get(greenlet.getcurrent()) if _loop_of_greenlet else None


def run_blocking(loop: ProcessLoop, func: Callable[..., _T], args: tuple[Any, ...], done: asyncio.Future[_T]) -> None:
    """Run a function of a process, and set `done` to its result or exception.

    It runs outside of the loop's callbacks, as in a thread: `asyncio.get_running_loop` raises in it.
    """
    if greenlet is None:
        _run_at_once(loop, func, args, done)
        return
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(func, *args)
        except BaseException as error:  # noqa: BLE001  the waiting task gets it
            outcome: tuple[Any, ...] = (done.set_exception, error)
        else:
            outcome = (done.set_result, result)
        finally:
            _loop_of_greenlet.pop(own, None)
        if not done.done():
            loop.call_soon(*outcome)

    own = greenlet.greenlet(run)
    _loop_of_greenlet[own] = loop
    loop.kernel.call_soon(_enter, own, context=loop.process.context.copy())


def start_main(loop: ProcessLoop, main: Callable[[], _T], done: asyncio.Future[_T]) -> None:
    """Run the main function of a process, which blocks, and set `done` to its result or exception.

    Raises:
        NotSimulated: the package greenlet is not installed.
    """
    if greenlet is None:
        refusal("a main function without `async`", "install the package greenlet, or write `async def`")
    loop.call_soon(run_blocking, loop, main, (), done)


def _enter(own: Any) -> None:
    """Continue a greenlet from the kernel, outside of any asyncio loop, until it waits or ends."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    running, ProcessLoop.running = ProcessLoop.running, None
    own.parent = greenlet.getcurrent()
    try:
        own.switch()
    finally:
        ProcessLoop.running = running
        asyncio._set_running_loop(before)


def wait_for(loop: ProcessLoop, future: asyncio.Future[Any], call: str) -> None:
    """Let the blocking code that runs now wait until a future is done."""
    own = None if greenlet is None else greenlet.getcurrent()
    if own not in _loop_of_greenlet:
        refusal(call, "a coroutine cannot block: await it, or start a main function without `async` by cluster.start")
    future.add_done_callback(lambda _: loop.kernel.call_soon(_enter, own, context=loop.process.context.copy()))
    assert own is not None
    own.parent.switch()


def sleep(loop: ProcessLoop, seconds: float) -> None:
    """Let the blocking code that runs now sleep; refuse it to a coroutine."""
    global _slept_s
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if ProcessLoop.running is not None and _executing is None:
        refusal("time.sleep() in a coroutine", "it would stop the whole loop: await asyncio.sleep() instead")
    if _executing is not None:
        _slept_s += seconds
        return
    woken: asyncio.Future[None] = loop.create_future()
    loop.call_later(seconds, woken.set_result, None)
    wait_for(loop, woken, "time.sleep()")


def _run_at_once(loop: ProcessLoop, func: Callable[..., _T], args: tuple[Any, ...], done: asyncio.Future[_T]) -> None:
    global _executing, _slept_s
    _executing, _slept_s = loop, 0.0
    asyncio._set_running_loop(None)
    running, ProcessLoop.running = ProcessLoop.running, None
    outcome: tuple[Any, ...]
    try:
        outcome = (done.set_result, func(*args))
    except Exception as error:  # noqa: BLE001  the waiting task gets it
        outcome = (done.set_exception, error)
    finally:
        _executing = None
        ProcessLoop.running = running
        asyncio._set_running_loop(loop)
    loop.call_later(_slept_s, _set, done, *outcome)


def _set(done: asyncio.Future[Any], set_outcome: Callable[[Any], None], value: Any) -> None:
    if not done.done():
        set_outcome(value)
