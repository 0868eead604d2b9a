"""Writes the event log of one process: sequence numbers without gaps, every record with its cause.

A record is written before the effect it describes leaves the node, so that after a SIGKILL the log still explains what
the other nodes saw. Writing is synchronous. Callers pass a payload of `records` and, if they know it, the sequence
number of the record that led to this one.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable

import msgspec

from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.records import RECORD_VERSION, Envelope, Payload, type_name

_cause: contextvars.ContextVar[int | None] = contextvars.ContextVar("cause", default=None)


class EventLog:
    """Appends records for one incarnation of one node to a sink of lines.

    Attributes:
        when_lost: called with the error of every line that cannot be written, before `append` raises it. A node that
            cannot record what it does has to end.

    Args:
        run: id of the run all nodes share.
        node: name of this node, for example `broker-1`.
        incarnation: how often this node has started in this run, from 1.
        write: writes one line, newline included; when it returns, the operating system has the line.
        detail: also record what `DETAIL` records describe, such as every request with its body.
    """

    def __init__(
        self,
        *,
        run: str,
        node: str,
        incarnation: int,
        clock: Clock,
        write: Callable[[bytes], object],
        detail: bool = False,
    ) -> None:
        self.run = run
        self.node = node
        self.incarnation = incarnation
        self.detail = detail
        self.zxid = 0
        self.controller_epoch = 0
        self.when_lost: Callable[[OSError], object] = _ignore
        self._clock = clock
        self._write = write
        self._encoder = msgspec.json.Encoder()
        self._seq = 0

    def append(self, payload: Payload, *, cause: int | None = None) -> int:
        """Write `payload` and return its sequence number. Without `cause`, the `causing` block has set it.

        Raises:
            OSError: it could not be written; the next record gets its number.
        """
        seq = self._seq + 1
        envelope = Envelope(
            version=RECORD_VERSION,
            run=self.run,
            node=self.node,
            incarnation=self.incarnation,
            seq=seq,
            mono_ms=round(self._clock.monotonic_ms(), 3),
            wall_ms=round(self._clock.wall_ms(), 3),
            type=type_name(payload),
            cause=_cause.get() if cause is None else cause,
            zxid=self.zxid,
            controller_epoch=self.controller_epoch,
            data=payload,
        )
        line = self._encoder.encode(envelope) + b"\n"
        try:
            self._write(line)
        except OSError as error:
            self.when_lost(error)
            raise
        self._seq = seq
        return seq

    def saw_zxid(self, zxid: int) -> None:
        """Note the newest ZooKeeper transaction that an answer to this node reflects."""
        self.zxid = max(self.zxid, zxid)

    def saw_controller_epoch(self, controller_epoch: int) -> None:
        """Note the newest controller epoch that this node has received or won."""
        self.controller_epoch = max(self.controller_epoch, controller_epoch)


def _ignore(error: OSError) -> None:
    """Do nothing: the writer gets the exception."""


class causing:  # noqa: N801  # it is used like a function
    """Makes `seq` the cause of records appended inside the block, also by tasks that are started inside.

    Every request has such a block, so that it is a class, which costs a third of a generator.
    """

    __slots__ = ("_seq", "_token")

    def __init__(self, seq: int | None) -> None:
        self._seq = seq

    def __enter__(self) -> None:
        self._token = _cause.set(self._seq)

    def __exit__(self, *_: object) -> None:
        _cause.reset(self._token)


def current_cause() -> int | None:
    """Return the cause that the enclosing `causing` block has set."""
    return _cause.get()
