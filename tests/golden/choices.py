"""What Apache's tools leave to chance where they alter configs: which broker they ask, and which of several answers
first.

The config of a topic, and the cluster's default, may be asked of any broker: the `AdminClient` takes the least loaded
one, and among equals whichever. `kafka-reassign-partitions` asks all brokers for their own configs at once. So of two
recordings made with tools, the writer of such a config, and the order of such notifications, say nothing; everything
else about them does.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator

from tests.golden.recording import CONTROLLER_EPOCH, Json

SOME_BROKER = "broker asked by a tool"
CONFIG = "/config/"
NOTIFICATION = "/config/changes/config_change_"
ASKED_OF_ANYBODY = re.compile(r"topics/.+|brokers/<default>")
ASKED_OF_ITSELF = re.compile(r"brokers/\d+")


def without_choices_of_tools(document: Json) -> Json:
    """A copy of a recording with one name for whoever altered a config that anybody could, and broker notifications
    sorted."""
    free = copy.deepcopy(document)
    renamed: dict[str, str] = {}
    for step in free["steps"]:
        _hide_who_was_asked(step["txns"])
        renamed |= _sorted_by_broker(step["txns"])
        _rename(step, renamed)
    return free


def _hide_who_was_asked(transactions: Json) -> None:
    """Where one broker altered a config and notified of it, once each, without the controller's fence."""
    done = [transaction for transaction in transactions if not _failed_or_fenced(transaction)]
    for entity in sorted({entity for transaction in done for _, entity in _notifications(transaction)}):
        paths = [op["path"] for transaction in done for op in _about(entity, transaction)]
        writers = {transaction["by"] for transaction in done if any(_about(entity, transaction))}
        if ASKED_OF_ANYBODY.fullmatch(entity) and len(paths) == 2 and len(writers) == 1:
            for transaction in done:
                if any(_about(entity, transaction)) and re.fullmatch(r"broker \d+", transaction["by"]):
                    transaction["by"] = SOME_BROKER


def _failed_or_fenced(transaction: Json) -> bool:
    return any(
        op["op"] == "error" or (op["op"] == "check" and op["path"] == CONTROLLER_EPOCH) for op in _ops(transaction)
    )


def _about(entity: str, transaction: Json) -> Iterator[Json]:
    """Its writes of a config and of the notification of it."""
    notifications = [path for path, named in _notifications(transaction) if named == entity]
    yield from (
        op for op in _ops(transaction) if op["op"] != "check" and op.get("path") in (CONFIG + entity, *notifications)
    )


def _notifications(transaction: Json) -> Iterator[tuple[str, str]]:
    """(path, entity)"""
    for op in _ops(transaction):
        if op["op"] == "create" and op["path"].startswith(NOTIFICATION):
            yield op["path"], op["data"]["entity_path"]


def _ops(transaction: Json) -> Json:
    return transaction.get("multi", [transaction])


def _sorted_by_broker(transactions: Json) -> dict[str, str]:
    """New paths for notifications of brokers' own configs that follow each other: those asked at once."""
    renamed: dict[str, str] = {}
    made = [notification for transaction in transactions for notification in _notifications(transaction)]
    for at_once, run in itertools.groupby(made, lambda notification: bool(ASKED_OF_ITSELF.fullmatch(notification[1]))):
        if at_once:
            paths = list(run)
            in_order = sorted(paths, key=lambda notification: notification[1])
            renamed |= {path: new for (path, _), (new, _) in zip(in_order, paths, strict=True)}
    return renamed


def _rename(step: Json, renamed: dict[str, str]) -> None:
    for transaction in step["txns"]:
        for op in _ops(transaction):
            if "path" in op:
                op["path"] = renamed.get(op["path"], op["path"])
    step["tree"] = {renamed.get(path, path): text for path, text in step["tree"].items()}
