"""Masks what Apache's tools leave to chance when they alter configs: the altering broker, and the order of responses.

Any broker may alter the config of a topic or the cluster default: the `AdminClient` sends the request to the least
loaded broker, or to any of several. `kafka-reassign-partitions` sends one request to each broker at the same time. In
recordings made with tools, the writer of such a config and the order of such notifications are therefore no difference.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator

from tests.golden.recording import CONTROLLER_EPOCH, Json

ANY_BROKER = "broker chosen by a tool"
CONFIG = "/config/"
NOTIFICATION = "/config/changes/config_change_"
ALTERED_BY_ANY_BROKER = re.compile(r"topics/.+|brokers/<default>")
ALTERED_BY_THAT_BROKER = re.compile(r"brokers/\d+")


def without_choices_of_tools(document: Json) -> Json:
    """A copy of a recording in which the broker that altered a config is masked if any broker could have done so, and
    in which the notifications of brokers' own configs are sorted."""
    free = copy.deepcopy(document)
    renamed: dict[str, str] = {}
    for step in free["steps"]:
        _mask_altering_broker(step["txns"])
        renamed |= _sorted_by_broker(step["txns"])
        _rename(step, renamed)
    return free


def _mask_altering_broker(transactions: Json) -> None:
    """Mask the writer if one broker wrote a config and its notification, once each, and not as the controller."""
    done = [transaction for transaction in transactions if not _failed_or_fenced(transaction)]
    for entity in sorted({entity for transaction in done for _, entity in _notifications(transaction)}):
        paths = [op["path"] for transaction in done for op in _about(entity, transaction)]
        writers = {transaction["by"] for transaction in done if any(_about(entity, transaction))}
        if ALTERED_BY_ANY_BROKER.fullmatch(entity) and len(paths) == 2 and len(writers) == 1:
            for transaction in done:
                if any(_about(entity, transaction)) and re.fullmatch(r"broker \d+", transaction["by"]):
                    transaction["by"] = ANY_BROKER


def _failed_or_fenced(transaction: Json) -> bool:
    return any(
        op["op"] == "error" or (op["op"] == "check" and op["path"] == CONTROLLER_EPOCH) for op in _ops(transaction)
    )


def _about(entity: str, transaction: Json) -> Iterator[Json]:
    """The writes of the config of `entity` and of its notification."""
    notifications = [path for path, named in _notifications(transaction) if named == entity]
    yield from (
        op for op in _ops(transaction) if op["op"] != "check" and op.get("path") in (CONFIG + entity, *notifications)
    )


def _notifications(transaction: Json) -> Iterator[tuple[str, str]]:
    """The (path, entity) of each config notification that the transaction creates."""
    for op in _ops(transaction):
        if op["op"] == "create" and op["path"].startswith(NOTIFICATION):
            yield op["path"], op["data"]["entity_path"]


def _ops(transaction: Json) -> Json:
    return transaction.get("multi", [transaction])


def _sorted_by_broker(transactions: Json) -> dict[str, str]:
    """New paths, in order of brokers, for consecutive notifications of brokers' own configs."""
    renamed: dict[str, str] = {}
    made = [notification for transaction in transactions for notification in _notifications(transaction)]
    for at_once, run in itertools.groupby(
        made, lambda notification: bool(ALTERED_BY_THAT_BROKER.fullmatch(notification[1]))
    ):
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
