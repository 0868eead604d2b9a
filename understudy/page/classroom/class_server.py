"""`ClassServer`: serves a class on a port of its own, in a thread of its own."""

from __future__ import annotations

import resource
import secrets
from typing import Final

import msgspec

from understudy.clusters.control.http_thread import HttpThread, address_of, hosts_of, listen
from understudy.page.classroom.classroom import Classroom, Counts, Step, TeacherDocument
from understudy.page.classroom.phone_app import phone_application
from understudy.page.classroom.qr_code import qr_svg
from understudy.page.served.changes import Changes
from understudy.page.served.server import check_host

MOST_CONNECTIONS: Final = 1000
"""Number of open connections from which on requests are refused. A browser keeps some open beside its stream."""
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"
"""Letters of a code. Those that look alike on a projector are left out."""
_CODE_LETTERS: Final = 6
_FURTHER_FILES: Final = 200


class _Document(TeacherDocument, frozen=True, kw_only=True):
    """The data about the class that the teacher's page gets.

    Attributes:
        address: the address without the code, for those who type it.
        code: what joining needs.
    """

    address: str
    code: str


class ClassServer(HttpThread):
    """The server of one class. Its methods are called from other threads.

    Args:
        title: the title of the lesson.
        address: host and port to listen on; port 0 is any free one.

    Raises:
        ClusterError: the host is not an address of this machine, or the port cannot be opened.
    """

    def __init__(self, title: str, address: tuple[str, int]) -> None:
        host, port = address
        check_host(host, "the class")
        listener = listen(host, port, what="the class", option="--class")
        self.address = f"http://{address_of(listener)}/"
        self.code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LETTERS))
        # The fragment of an address is in no request, and so in no log.
        self.url = f"{self.address}#{self.code}"
        _allow_files(MOST_CONNECTIONS + _FURTHER_FILES)
        changes = Changes()
        self._room = Classroom(title, lambda: secrets.token_urlsafe(16), changes.notify)
        application = phone_application(
            self._room,
            changes,
            hosts=hosts_of(listener),
            code=self.code,
            # Browsers give the cookies of a host to all of its ports.
            cookie=f"understudy-class-{listener.getsockname()[1]}",
        )
        super().__init__(
            application,
            listener,
            name="understudy-class",
            before_end=changes.close,
            most_connections=MOST_CONNECTIONS,
        )

    def document(self) -> bytes:
        """Return the JSON of the data that the teacher's page gets. Raises ClusterError."""
        shown = self.call(self._room.teacher_document)
        return msgspec.json.encode(
            _Document(address=self.address, code=self.code, phones=shown.phones, step=shown.step, polls=shown.polls)
        )

    def qr_code(self) -> bytes:
        """Return the QR code of the address as SVG."""
        return qr_svg(self.url)

    def show(self, step: Step) -> None:
        """Take all phones to a step. Raises Refusal, ClusterError."""
        self.call(lambda: self._room.show(step))

    def reveal(self, name: str) -> None:
        """Show the votes on a question. Raises Refusal, ClusterError."""
        self.call(lambda: self._room.reveal(name))

    def counts(self) -> tuple[int, list[Counts]]:
        """Return the number of phones, and the counts of all questions. For use after `close`."""
        return self._room.counts()


def _allow_files(wanted: int) -> None:
    """Let this process open as many files and sockets as the class may need, up to its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
