"""Texts of moments and durations on the page, from the table that the functions of Python are tested with also."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.foundation.test_times import cases
from tests.understudy.page.scripts import load

NAMES = {"moment": "clock"}


@pytest.fixture
def scripts(page: Page) -> Page:
    load(page)
    return page


def test_times_have_the_texts_of_the_table(scripts: Page) -> None:
    calls = [[NAMES.get(case.function, case.function), case.arguments] for case in cases()]
    texts = scripts.evaluate("(calls) => calls.map(([name, values]) => words[name](...values))", calls)
    assert texts == [case.text for case in cases()]


def test_no_time_between_two_moments_is_the_same_moment(scripts: Page) -> None:
    assert scripts.evaluate("() => words.relative(0.4, 'ago')") == "at the same moment"
    assert scripts.evaluate("() => words.relative(2_400, 'ago')") == "2.4 ms ago"
