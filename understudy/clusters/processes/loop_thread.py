"""`LoopThread`: an event loop in its own thread, for code that runs on no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT_S: Final = 10.0


class LoopThread:
    """Runs coroutines on the event loop of a thread, which it starts; a context manager, which ends the thread.

    Its methods can be called from any other thread.

    Args:
        name: the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._begun: list[Future[object]] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine, and do not wait for it."""
        self._begun.append(asyncio.run_coroutine_threadsafe(work, self._loop))

    def ask(self, call: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a coroutine to its end, and return its result.

        Raises TimeoutError if it takes longer, after which it is cancelled, and what the coroutine raises.
        """
        answer = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            answer.cancel()
            raise

    @property
    def failure(self) -> BaseException | None:
        """The exception of a coroutine that was begun; None if none has failed."""
        ended = (each for each in self._begun if each.done() and not each.cancelled())
        return next((failure for each in ended if (failure := each.exception()) is not None), None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until begun coroutines have ended, and return whether all have. Raises the exception of a failed one."""
        running = wait(self._begun, timeout_s, FIRST_EXCEPTION).not_done
        if (failure := self.failure) is not None:
            raise failure
        return not running

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Cancel the running coroutines, and end the thread, within ten seconds. Closing twice is harmless."""
        if not self.is_closed:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
