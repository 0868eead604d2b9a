"""Fixtures of tests that run simulated tests in the process of pytest."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def without_earlier_objects() -> None:
    """Leave the objects of earlier tests out of garbage collections: each simulated test ends with one.

    The workers in which users' tests run have few objects.
    """
    gc.collect()
    gc.freeze()
