"""Threads, locks and thread-local identity of code that blocks: greenlets in place of the operating system's threads.

Conditions, events, semaphores, queues and executors of Python's library are made of locks and threads, so they work
unchanged once these do. Without greenlets a thread is
refused. A coroutine may start one, as anyio does, and may not wait for it.
"""

from __future__ import annotations

import _thread
import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from understudy.clusters.simulated.loop import resolve
from understudy.clusters.virtual import blocking
from understudy.clusters.virtual.current import current_loop
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.refusals import refusal
from understudy.clusters.virtual.replacement import replace, replace_everywhere

_threads: dict[Any, threading.Thread] = {}
"""The threads that run, by their greenlets."""


class GreenLock:
    """As `threading.Lock`; the code that waits for it is served in the order in which it came."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop.of_process
        self._is_locked = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if not self._is_locked:
            self._is_locked = True
            return True
        if not blocking or timeout == 0:
            return False
        return self._wait(None if timeout == -1 else timeout)

    def _wait(self, timeout_s: float | None) -> bool:
        loop = self._loop
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if blocking.wait_for(loop, waiter, "waiting for a lock", timeout_s):
            return True  # release() has left the lock to this code
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        return False

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._is_locked = False

    def locked(self) -> bool:
        return self._is_locked

    def _at_fork_reinit(self) -> None:
        self._is_locked = False
        self._waiters.clear()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{'locked' if self._is_locked else 'unlocked'} GreenLock>"


class _GreenThread:
    """What a `threading.Thread` that runs as a greenlet keeps.

    Attributes:
        ended: is done when `run` has returned.
    """

    def __init__(self, loop: ProcessLoop, thread: threading.Thread) -> None:
        self.loop = loop = loop.of_process
        self.ended: asyncio.Future[None] = loop.create_future()
        self.waiters: list[asyncio.Future[None]] = []
        self.greenlet = blocking.spawn(loop, self._run)
        self._thread = thread
        _threads[self.greenlet] = thread

    def _run(self) -> None:
        thread = self._thread
        try:
            thread.run()
        except SystemExit:
            pass
        except BaseException as error:  # noqa: BLE001  as a thread does, and the verdict of the run has it
            self.loop.call_exception_handler({"message": f"Exception in thread {thread.name}", "exception": error})
        finally:
            _threads.pop(self.greenlet, None)
            self.ended.set_result(None)


def install() -> None:
    """Replace locks and threads, for code of processes."""
    for name, function in (("start", _start), ("join", _join), ("is_alive", _is_alive)):
        _replace_method(name, function)
    original_ident = threading.Thread.__dict__["ident"]
    threading.Thread.ident = property(lambda thread: _ident_of(thread, original_ident))  # type: ignore[assignment,method-assign]  # a replacement
    if isinstance(_thread.allocate_lock, BuiltinFunctionType):
        replace(_thread, "allocate_lock", _allocate_lock)
        if threading.Lock is not _thread.allocate_lock:  # Python 3.13: a class
            replace_everywhere(threading, "Lock", _by_process(threading.Lock, GreenLock))
    replace_everywhere(threading, "RLock", _by_process(threading.RLock, _green_rlock))
    replace(_thread, "get_ident", _get_ident)
    replace_everywhere(threading, "current_thread", _current_thread(threading.current_thread))
    replace_everywhere(queue, "SimpleQueue", _by_process(queue.SimpleQueue, _simple_queue))
    for name in ("start_new_thread", "start_joinable_thread"):
        if hasattr(_thread, name):
            replace(_thread, name, _start_new_thread)


def _by_process(original: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    def function(*given: Any, **named: Any) -> Any:
        loop = current_loop()
        return original(*given, **named) if loop is None else simulated(loop, *given, **named)

    return function


def _allocate_lock(original: Callable[[], Any], *wrong: Any) -> Any:
    loop = current_loop()
    return original(*wrong) if loop is None or wrong else GreenLock(loop)


def _green_rlock(loop: ProcessLoop) -> Any:
    return threading._PyRLock()  # type: ignore[attr-defined]  # it is made of a lock


def _simple_queue(loop: ProcessLoop) -> Any:
    return queue._PySimpleQueue()  # type: ignore[attr-defined]  # it is made of a semaphore


def _get_ident(original: Callable[[], int], *wrong: Any) -> int:
    code = blocking.current_code()
    if code in _threads:
        return hash(code)
    return original(*wrong)


def _current_thread(original: Callable[[], threading.Thread]) -> Callable[[], threading.Thread]:
    def current_thread() -> threading.Thread:
        loop = current_loop()
        if loop is None:
            return original()
        return _threads.get(blocking.current_code(), threading.main_thread())

    return current_thread


def _start_new_thread(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    if current_loop() is not None:
        _refuse_thread()
    return original(*given, **named)


def _refuse_thread() -> None:
    hint = "use threading.Thread" if blocking.can_wait() else f"use a task, or {blocking.NEEDS_GREENLET}"
    refusal("a thread", hint)


def _replace_method(name: str, simulated: Callable[..., Any]) -> None:
    original = getattr(threading.Thread, name)

    def method(self: threading.Thread, *given: Any, **named: Any) -> Any:
        return simulated(original, self, *given, **named)

    method.__name__ = name
    setattr(threading.Thread, name, method)


def _start(original: Callable[..., None], thread: Any) -> None:
    loop = current_loop()
    if loop is None:
        original(thread)
        return
    if not blocking.can_wait():
        _refuse_thread()
    if hasattr(thread, "understudy"):
        raise RuntimeError("threads can only be started once")
    thread.understudy = _GreenThread(loop, thread)
    thread._started.set()


def _join(original: Callable[..., None], thread: Any, timeout: float | None = None) -> None:
    green: _GreenThread | None = getattr(thread, "understudy", None)
    loop = current_loop()
    if green is None:
        original(thread, timeout)
    elif loop is not None and not green.ended.done():
        if blocking.current_code() is green.greenlet:
            raise RuntimeError("cannot join current thread")
        ended: asyncio.Future[None] = green.loop.create_future()
        green.ended.add_done_callback(lambda _: resolve(ended, None))
        blocking.wait_for(green.loop, ended, "Thread.join()", timeout)


def _is_alive(original: Callable[..., bool], thread: Any) -> bool:
    green: _GreenThread | None = getattr(thread, "understudy", None)
    return original(thread) if green is None else not green.ended.done()


def _ident_of(thread: Any, original: property) -> int | None:
    green: _GreenThread | None = getattr(thread, "understudy", None)
    if green is not None:
        return hash(green.greenlet)
    assert original.fget is not None
    found: int | None = original.fget(thread)
    return found
