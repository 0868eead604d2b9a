"""Adds the option `--rewrite-stories`, which writes the transcripts of this run into the stories."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-stories", action="store_true", help="write the transcripts of this run into tests/stories/*.story"
    )
