"""Writes docs/reference/clients.md from the cards that runs have kept in cards.json."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from devtools.report_cards.drivers import DRIVERS
from devtools.report_cards.judge import Card
from devtools.report_cards.members import MEMBER_SCENES, GroupCard
from devtools.report_cards.notes import NOTES
from devtools.report_cards.scenes import SCENES
from understudy.clusters.processes.kafka_jars import VERSION as KAFKA_VERSION

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "cards.json"
PAGE = ROOT / "docs" / "reference" / "clients.md"
OURS, KAFKAS = "Understudy", f"Apache Kafka {KAFKA_VERSION}"
CLUSTERS = (OURS, KAFKAS)

_HEAD = """\
# Report cards of stock clients

Each client below holds an admin client, a producer and a consumer open while a fault is injected into its cluster, and
is judged by what it printed and by what the log holds. The drivers are small programs in
[examples/clients](../../examples/clients/README.md), one for each client, with the client's own defaults wherever they
can be kept. [Members of groups](#members-of-groups) are judged beside them. `make clients` runs all and writes this
page. Rarer failures, after which a client never recovers, are on [a page of their own](client-failures.md).

## How to read it

*Passed* means that all three went on after the fault (within 60 s after its end), that no acknowledged record was lost,
that none was doubled or reordered, and that the consumer read each record once. *Admin* is the time from the fault to
the end of the first attempt to create a topic that began after it and succeeded, with the number of attempts that
failed; *producer* and *consumer* are the longest times without an acknowledgement and without a record. Each row is
one run on a busy machine, with a ZooKeeper session timeout of 4 s for the brokers: compare verdicts, not milliseconds.

Three brokers, `min.insync.replicas=2`, an idempotent producer with acks=all that sends 20 records a second, and an
admin client that creates a topic every second. The leader of the partitions is not the controller. If a fault has
several steps, such as a rolling restart, *admin* is the longest of the times from each step.

"""


_MEMBERS = """\
## Members of groups

Two members of each client, with the client's own defaults, read a topic of four partitions as one group and commit
automatically, while 20 records a second are sent to the topic. `__consumer_offsets` has one partition with three
replicas, so that all groups have one coordinator; a controller that is killed may be this coordinator. *Passed* means
that members read again within 60 s, and that every acknowledged record was read by one of them. *Rebalances* counts the
assignments that the members were given after the fault; *longest pause* is the longest time in which neither read a
record; *read twice* counts the records that were read again because they were not committed, which a group may do.

"""


class Kept(msgspec.Struct):
    """The cards of the last run of each client and scene.

    Attributes:
        cards: by cluster, scene and client.
        not_run: by client, why its driver could not be built.
        groups: the cards of members, by cluster, scene and client.
    """

    cards: dict[str, dict[str, dict[str, Card]]] = msgspec.field(default_factory=dict)
    not_run: dict[str, str] = msgspec.field(default_factory=dict)
    groups: dict[str, dict[str, dict[str, GroupCard]]] = msgspec.field(default_factory=dict)

    def keep(self, cluster: str, scene: str, cards: dict[str, Card]) -> None:
        """Put cards in the place of earlier ones."""
        self.cards.setdefault(cluster, {}).setdefault(scene, {}).update(cards)

    def keep_group(self, cluster: str, scene: str, cards: dict[str, GroupCard]) -> None:
        """Put cards of members in the place of earlier ones."""
        self.groups.setdefault(cluster, {}).setdefault(scene, {}).update(cards)

    def card(self, cluster: str, scene: str, client: str) -> Card | None:
        return self.cards.get(cluster, {}).get(scene, {}).get(client)


def load(path: Path = KEPT) -> Kept:
    """Read the cards; none if there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=Kept) if path.exists() else Kept()


def store(kept: Kept, path: Path = KEPT) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="deterministic"), indent=1) + b"\n")


def page(kept: Kept) -> str:
    """The text of docs/reference/clients.md."""
    parts = [_HEAD, "## The verdicts\n\n", _summary(kept), _overview(kept)]
    parts += [_client(kept, client) for client in DRIVERS if _has_cards(kept, client)]
    parts += [_MEMBERS, _members(kept), _not_run(kept)]
    return "".join(parts)


def _summary(kept: Kept) -> str:
    cards = [card for scenes in kept.cards.values() for clients in scenes.values() for card in clients.values()]
    passed = sum(card.passed for card in cards)
    about_records = any(" records " in reason for card in cards for reason in card.reasons)
    records = "" if about_records else " In none was a record lost, doubled, reordered, skipped or read twice."
    return f"{passed} of {len(cards)} runs of a client through a scene passed.{records}\n\n"


def _overview(kept: Kept) -> str:
    rows = [f"| client | beside | {' | '.join(scene.name for scene in SCENES)} |", "|---" * (len(SCENES) + 2) + "|"]
    for client in DRIVERS:
        if _has_cards(kept, client):
            for cluster in CLUSTERS:
                cells = (_verdict(kept.card(cluster, scene.name, client)) for scene in SCENES)
                rows.append(f"| {client} | {cluster} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n\n"


def _client(kept: Kept, client: str) -> str:
    versions = {
        card.version
        for cluster in CLUSTERS
        for scene in SCENES
        if (card := kept.card(cluster, scene.name, client)) is not None and card.version
    }
    rows = ["| scene | cluster | verdict | admin | producer | consumer |", "|---|---|---|---|---|---|"]
    failures: list[str] = []
    for scene in SCENES:
        for cluster in CLUSTERS:
            card = kept.card(cluster, scene.name, client)
            rows.append(f"| {scene.name} | {cluster} | {' | '.join(_cells(card))} |")
            if card is not None and card.reasons:
                failures += [f"- {scene.name}, {cluster}: {reason}" for reason in card.reasons]
    text = f"## {client}\n\nVersion {', '.join(sorted(versions))}.\n\n" + "\n".join(rows) + "\n\n"
    if failures:
        text += "What failed:\n\n" + "\n".join(map(_wrapped, failures)) + "\n\n"
        text += _wrapped(NOTES[client]) + "\n\n" if client in NOTES else ""
    return text


def _cells(card: Card | None) -> tuple[str, ...]:
    if card is None:
        return ("–",) * 4
    admin = f"{_ms(card.admin_ms)}{_errors(card.admin_errors, 'error')}"
    producer = f"{_ms(card.sent_ms)}{_errors(card.failed, 'failed record')}"
    return _verdict(card), admin, producer, "–" if "consumer" in card.without else _ms(card.read_ms)


def _members(kept: Kept) -> str:
    rows = ["| client | scene | cluster | verdict | rebalances | longest pause | read twice | lost |", "|---" * 8 + "|"]
    failures: list[str] = []
    for client, scene, cluster in itertools.product(DRIVERS, MEMBER_SCENES, CLUSTERS):
        card = kept.groups.get(cluster, {}).get(scene.name, {}).get(client)
        if card is not None:
            verdict = "passed" if card.passed else "**failed**"
            numbers = f"{card.rebalances} | {_ms(card.read_ms)} | {card.twice} | {card.lost}"
            rows.append(f"| {client} | {scene.name} | {cluster} | {verdict} | {numbers} |")
            failures += [f"- {client}, {scene.name}, {cluster}: {reason}" for reason in card.reasons]
    text = "\n".join(rows) + "\n\n"
    return text + ("What failed:\n\n" + "\n".join(map(_wrapped, failures)) + "\n\n" if failures else "")


def _not_run(kept: Kept) -> str:
    lines = [
        f"- A broker of {KAFKAS} cannot be isolated: Kafka cannot bind the addresses by which our proxy tells brokers "
        "apart. Cells of what was not run are `–`."
    ]
    lines += [
        f"- {client}: {kept.not_run.get(client, 'its driver was not run').splitlines()[0]}"
        for client in DRIVERS
        if not _has_cards(kept, client)
    ]
    return "## What was not run\n\n" + "\n".join(map(_wrapped, lines)) + "\n"


def _has_cards(kept: Kept, client: str) -> bool:
    return any(kept.card(cluster, scene.name, client) for cluster in CLUSTERS for scene in SCENES)


def _verdict(card: Card | None) -> str:
    return "–" if card is None else "passed" if card.passed else "**failed**"


def _ms(found: int | None) -> str:
    return "never" if found is None else f"{found:,} ms"


def _errors(found: dict[str, int], what: str) -> str:
    if not found:
        return ""
    number = sum(found.values())
    most = max(found, key=lambda name: found[name])
    return f", {number} {what}{'s' if number > 1 else ''} (`{most}`{', …' if len(found) > 1 else ''})"


def _wrapped(text: str) -> str:
    """Break a paragraph or an item of a list at 120 columns."""
    indent = "  " if text.startswith("- ") else ""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 120:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])
