"""`pytest tests/stories --rewrite-stories` writes today's transcripts into the stories; review them as prose."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-stories", action="store_true", help="write today's transcripts into tests/stories/*.story"
    )
