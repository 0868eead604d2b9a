"""Shortens the errors of the clients of stores to their reason, without numbers of requests and names in their code."""

from __future__ import annotations

import re
from typing import Final

BRANCH: Final = "\x1b[31m↳\x1b[0m"
"""Sign before each cause in an error of deltalake's client: the request, the status, and the answer of the store."""
_NOISE: Final = re.compile(
    r"\. Detail: .*"
    r"| \(Request ID: .*"
    r"|When \w[^:]*: "
    # Google
    r"|google::cloud::Status\((?=\w+: )"
    r"|Permanent error, with a last message of |Retry policy exhausted, with a last message of "
    r"| error_info=\{.*"
    # Azure
    r"|.* Azure Error: (?:\[\] ?)?"
    r"|\s*Request ?I[Dd]:.*"
    r"|\s*See Azure::Core::Diagnostics.*"
    # HDFS
    r"|\s+at [\w.$/]+\([\w.]+:\d+\).*"
    r"|: \[DatanodeInfoProto.*",
    re.DOTALL,
)
_URL: Final = re.compile(r"^(?:Error performing \w+ \S+ in \S+(?:, after .*)?) - ")


def reason_of(text: str) -> str:
    """Return the reason in one line."""
    causes = [cause.strip() for cause in text.split(BRANCH)] if BRANCH in text else [text]
    found = [_URL.sub("", " ".join(cause.split())) for cause in causes[-2:]] if len(causes) > 1 else causes
    return " ".join(_NOISE.sub("", ": ".join(found)).split())
