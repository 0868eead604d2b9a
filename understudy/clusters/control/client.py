"""`ControlClient`: calls the control port of a running cluster."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from understudy.clusters.control.control_file import ControlEntry, NoControlPort, read_control_file

TIMEOUT_S: Final = 200.0
"""Time that a request may take, longer than the server waits for a verb."""
_WRONG_REQUEST: Final = (400, 404, 413)


class ControlRefused(Exception):
    """The control port refused a request, or could not do it. The message comes from the answer."""

    def __init__(self, message: str, status: int, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.answer: Mapping[str, Any] = {"error": message} if answer is None else answer
        """The answer's JSON object, which may have more keys than the message."""

    @property
    def is_wrong_request(self) -> bool:
        """Whether the request itself is wrong, whatever the state of the cluster."""
        return self.status in _WRONG_REQUEST


class ControlClient:
    """Calls one control port; it opens a connection for each request."""

    def __init__(self, entry: ControlEntry) -> None:
        self._entry = entry

    @classmethod
    def of_run(cls, folder: Path) -> ControlClient:
        """Return a client of the cluster that runs in a run folder. Raises NoControlPort."""
        return cls(read_control_file(folder))

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer of a route that changes nothing. Raises ControlRefused and NoControlPort."""
        return self._request("GET", path, None)

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Send a body with the token, and return the answer. Raises ControlRefused and NoControlPort."""
        return self._request("POST", path, json.dumps(body).encode())

    def verb(self, name: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Do a verb, and return what it has done. Raises ControlRefused and NoControlPort."""
        return self.post(f"/verbs/{name}", body)

    def _request(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self._entry.host, self._entry.port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._entry.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoControlPort(f"the control port {self._entry.address} does not answer: {error}") from None
        finally:
            connection.close()
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            raise ControlRefused(text.decode(errors="replace")[:300], response.status) from None
        if response.status != http.client.OK:
            raise ControlRefused(str(answer.get("error", answer)), response.status, answer)
        return answer
