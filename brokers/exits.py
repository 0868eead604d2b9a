"""The exit codes of a broker process, and the failures of a start that a later start may not have.

Kafka exits with 1 after every failure; `TRY_AGAIN` lets a supervisor tell those that need an operator.
"""

from __future__ import annotations

from typing import Final

from understudy.brokers.membership.registration import RegistrationRefused
from understudy.foundation.zk.client import ZooKeeperUnreachable
from understudy.foundation.zk.kafka_zk_client import SessionLost

FAILED: Final = 1
TRY_AGAIN: Final = 75
"""Exit code of a start that failed with one of `TEMPORARY`: EX_TEMPFAIL of sysexits.h."""

TEMPORARY: Final = (RegistrationRefused, SessionLost, ZooKeeperUnreachable)
"""Failures of a start that may succeed later: ZooKeeper does not answer, the session has expired during the start, or
its id is registered by another session, perhaps the session of its last run."""
