"""Producers and consumers of seeds: what they see is judged, and a broken replication is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.brokers.log.producer_state import ProducerStateManager
from understudy.brokers.replication import isr, replica_fetcher
from understudy.brokers.replication.truncation import Truncation
from understudy.checks.client_history import CLIENT_CHECKS
from understudy.trials.seeds.seeds import run_seed

FIRST_SEEDS = 3
MOST_SEEDS = 10


def test_what_clients_see_is_tested_in_every_seed() -> None:
    for seed in range(1, FIRST_SEEDS + 1):
        report = run_seed(seed)
        assert report.problems == ()
        assert report.acknowledged > 20
        assert all(report.clients_tested[check.id] > 20 for check in CLIENT_CHECKS), report.clients_tested


def without_isr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the leader's log end be the high watermark, whichever replicas have the records."""
    monkeypatch.setattr(isr, "high_watermark", lambda *_, leader_end_offset, **__: leader_end_offset)


def without_producer_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Append every batch, also one that is sent again."""
    monkeypatch.setattr(ProducerStateManager, "duplicate_of", lambda *_: None)
    monkeypatch.setattr(ProducerStateManager, "check", lambda *_: None)


def without_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let followers keep the records that their leader does not have."""

    def nothing(*_: object, log_end_offset: int, **__: object) -> Truncation:
        return Truncation(log_end_offset, is_complete=True)

    monkeypatch.setattr(replica_fetcher, "truncation_offset", nothing)


@pytest.mark.parametrize(("broken", "first"), [(without_isr, 1), (without_producer_state, 1), (without_truncation, 2)])
def test_broken_replication_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by the checks of the logs or of what clients have seen, or a replica never gets back in sync.
    `first` is a seed that shows it soon: a replica that never gets back in sync costs many attempts.
    """
    broken(monkeypatch)
    assert any(run_seed(seed, 60).problems for seed in range(first, MOST_SEEDS + 1))
