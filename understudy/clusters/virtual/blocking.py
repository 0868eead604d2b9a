"""Code that blocks in virtual time: main functions without `async`, their threads, and functions in executors.

Such code runs in a greenlet, which switches to the kernel while it waits. Without the package greenlet a function in an
executor may only sleep: its result is there later, by the time that it has slept.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from understudy.clusters.virtual.current import Current
from understudy.clusters.virtual.refusals import refusal

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop

try:
    import greenlet
except ImportError:  # an optional dependency
    greenlet = None

_T = TypeVar("_T")

NEEDS_GREENLET: Final = "install the package greenlet: pip install 'kafka-understudy[blocking]'"

SYSTEM_CALL_S: Final = 0.000_2
"""Virtual time that a round of a loop takes which only looks whether a socket is ready."""

_loop_of_greenlet: dict[Any, ProcessLoop] = {}
"""The code that blocks, also of killed processes: a greenlet that is dropped would run its `finally:`."""
_locals_of_greenlet: dict[Any, dict[str, Any]] = {}
"""What `threading.local` objects hold for each blocking code that waits; see `_exchange_locals`."""
_is_executing = False
"""Whether a function runs that cannot wait, because there are no greenlets."""
_slept_s = 0.0


def current_code() -> Any:
    """The greenlet of the blocking code that runs now; None if none runs, or it cannot wait."""
    if greenlet is None or not _loop_of_greenlet:
        return None
    own = greenlet.getcurrent()
    return own if own in _loop_of_greenlet else None


def can_wait() -> bool:
    """Whether this Python has greenlets, so that blocking code can wait and threads can run."""
    return greenlet is not None


def slept_s() -> float:
    """What the function in an executor that runs now has slept; it is ahead of the loop by this time."""
    return _slept_s if _is_executing else 0.0


def spawn(loop: ProcessLoop, run: Callable[[], object]) -> Any:
    """Run a function of a process that blocks, soon, and return its greenlet.

    It runs outside of the loop's callbacks, as in a thread: `asyncio.get_running_loop` raises in it.

    Args:
        run: it must not raise.
    """

    def begin() -> None:
        try:
            run()
        finally:
            del _loop_of_greenlet[own]

    loop = loop.of_process  # the code may run for longer than a loop that other code has made
    own = greenlet.greenlet(begin)
    own.gr_context = loop.process.context.copy()
    _loop_of_greenlet[own] = loop
    loop.kernel.call_soon(_enter, own, context=loop.process.context.copy())
    return own


def waiting_frames(loop: ProcessLoop) -> list[FrameType]:
    """Return the innermost frame of each function of a process that blocks now, in the order of their starts."""
    return [own.gr_frame for own, each in _loop_of_greenlet.items() if each is loop and own.gr_frame is not None]


def run_blocking(loop: ProcessLoop, func: Callable[..., _T], args: tuple[Any, ...], done: asyncio.Future[_T]) -> None:
    """Run a function of a process as in a thread, and set `done` to its result or exception."""
    if greenlet is None:
        _run_at_once(loop, func, args, done)
        return

    def run() -> None:
        # A function that is still running when its caller was cancelled runs on, as in a thread.
        outcome = _outcome(done, func, args)
        loop.call_soon(_set, done, *outcome)

    spawn(loop, run)


def start_main(loop: ProcessLoop, main: Callable[[], _T], done: asyncio.Future[_T]) -> None:
    """Run the main function of a process, which blocks, and set `done` to its result or exception.

    Raises:
        NotSimulated: the package greenlet is not installed.
    """
    if greenlet is None:
        refusal("a main function without `async`", f"{NEEDS_GREENLET}; or write `async def`")
    loop.call_soon(run_blocking, loop, main, (), done)


def _enter(own: Any) -> None:
    """Continue a greenlet from the kernel, outside of any asyncio loop, until it waits or ends."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    running, Current.running = Current.running, None
    Current.blocked = _loop_of_greenlet[own]
    own.parent = greenlet.getcurrent()
    outer = _exchange_locals(_locals_of_greenlet.pop(own, {}))
    try:
        own.switch()
    finally:
        inner = _exchange_locals(outer)
        if own in _loop_of_greenlet:
            _locals_of_greenlet[own] = inner
        Current.running, Current.blocked = running, None
        asyncio._set_running_loop(before)


_thread_dict = ctypes.pythonapi.PyThreadState_GetDict
_thread_dict.restype = ctypes.c_void_p  # a borrowed reference


def _exchange_locals(new: dict[str, Any]) -> dict[str, Any]:
    """Let `threading.local` objects hold something else, and return what they held.

    CPython keeps it in the dictionary of the operating system's thread, under a key for each object.
    """
    state: dict[Any, Any] = ctypes.cast(_thread_dict(), ctypes.py_object).value
    held = {key: state.pop(key) for key in [*state] if isinstance(key, str) and key.startswith("thread.local.")}
    state.update(new)
    return held


def wait_for(loop: ProcessLoop, future: asyncio.Future[Any], call: str, timeout_s: float | None = None) -> bool:
    """Let the blocking code that runs now wait until a future is done, or cancelled after a time.

    Returns:
        Whether the future was done in time.

    Raises:
        NotSimulated: a coroutine runs now, or the code cannot wait.
    """
    if future.done():
        return True
    own = current_code()
    if own is None:
        refuse_to_block(call)
    timer = None if timeout_s is None else loop.call_later(timeout_s, future.cancel)
    future.add_done_callback(lambda _: loop.kernel.call_soon(_enter, own, context=loop.process.context.copy()))
    own.parent.switch()
    if timer is not None:
        timer.cancel()
    return not future.cancelled()


def refuse_to_block(call: str) -> NoReturn:
    """Refuse a call that waits, to code that cannot."""
    if greenlet is None:
        refusal(call, NEEDS_GREENLET)
    refusal(
        call,
        "a coroutine cannot block, since nothing else of its loop would run: await an asynchronous function instead, "
        "or call it by asyncio.to_thread",
    )


def sleep(loop: ProcessLoop, seconds: float) -> None:
    """Let the blocking code that runs now sleep; refuse it to a coroutine."""
    global _slept_s
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if _is_executing:
        _slept_s += seconds
        return
    if Current.running is not None:
        refusal("time.sleep() in a coroutine", "it would stop the whole loop: await asyncio.sleep() instead")
    woken: asyncio.Future[None] = loop.create_future()
    wait_for(loop, woken, "time.sleep()", seconds)


def give_way(loop: ProcessLoop) -> None:
    """Let other code run for a moment, if blocking code runs now that can wait."""
    if current_code() is not None:
        wait_for(loop, loop.create_future(), "a moment", SYSTEM_CALL_S)


def _outcome(done: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    try:
        return done.set_result, func(*args)
    except StopIteration as error:  # a future cannot have it
        wrong = RuntimeError("a function in an executor has raised StopIteration")
        wrong.__cause__ = error
        return done.set_exception, wrong
    except BaseException as error:  # noqa: BLE001  the waiting task gets it
        return done.set_exception, error


def _run_at_once(loop: ProcessLoop, func: Callable[..., _T], args: tuple[Any, ...], done: asyncio.Future[_T]) -> None:
    global _is_executing, _slept_s
    _is_executing, _slept_s = True, 0.0
    asyncio._set_running_loop(None)
    running, Current.running = Current.running, None
    Current.blocked = loop
    try:
        outcome = loop.process.context.copy().run(_outcome, done, func, args)
    finally:
        slept, _is_executing = _slept_s, False
        Current.running, Current.blocked = running, None
        asyncio._set_running_loop(loop)
    loop.call_later(slept, _set, done, *outcome)


def _set(done: asyncio.Future[Any], set_outcome: Callable[[Any], None], value: Any) -> None:
    if not done.done():
        set_outcome(value)
