"""Adds the option `--rewrite-stories`, which writes the present transcripts into the stories; review the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-stories", action="store_true", help="write today's transcripts into tests/stories/*.story"
    )
