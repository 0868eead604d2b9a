"""Silences operators' logs: these tests read the event log."""

from __future__ import annotations

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def quiet_operators_logs(restore_logging: None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
