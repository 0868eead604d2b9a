"""The fixtures of the tests in a browser."""

from __future__ import annotations

from tests.browser import browser, page

__all__ = ["browser", "page"]
