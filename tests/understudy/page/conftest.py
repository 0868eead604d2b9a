"""The browser of `tests.browser` for the tests of the page."""

from tests.browser import browser, page

__all__ = ["browser", "page"]
