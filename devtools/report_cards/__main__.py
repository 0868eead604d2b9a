"""Runs the report cards of stock clients and writes docs/reference/clients.md: `python -m
devtools.report_cards`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from devtools.building import NotBuilt
from devtools.judges.maven import kafka_libs
from devtools.report_cards.drivers import DRIVERS, MEMBERS
from devtools.report_cards.judge import Card
from devtools.report_cards.members import MEMBER_SCENES, run_members
from devtools.report_cards.page import KAFKAS, OURS, PAGE, ROOT, load, page, store
from devtools.report_cards.run import run_scene
from devtools.report_cards.scenes import SCENES, Scene
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.apache_kafka import SMALL_JVM, ApacheKafka
from understudy.clusters.processes.kafka_jars import NotFetched


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments choose, keep the cards, and write the page.

    Returns:
        0 if every chosen scene was played, whatever the clients made of it, 2 if one was not.
    """
    chosen = _parser().parse_args(arguments)
    if chosen.page:
        return _write_page()
    scenes = [scene for scene in SCENES if not chosen.scene or scene.name in chosen.scene]
    member_scenes = [scene for scene in MEMBER_SCENES if not chosen.scene or scene.name in chosen.scene]
    if chosen.members:
        scenes = []
    not_played = 0
    with tempfile.TemporaryDirectory(prefix="understudy-clients-") as temporary:
        folder = Path(chosen.keep or temporary).absolute()
        commands = _built(chosen.client or list(DRIVERS), folder, DRIVERS)
        members = _built(chosen.client or list(MEMBERS), folder / "members", MEMBERS)
        if not commands or not members:
            print("no driver could be built", file=sys.stderr)
            return 2
        for cluster, kafka in _clusters(chosen.beside):
            for scene in member_scenes:
                not_played += not _play_members(scene, cluster, kafka, members, folder)
            for scene in scenes:
                if kafka is None or not scene.needs_proxy:
                    not_played += not _play(scene, cluster, kafka, commands, folder)
    _write_page()
    return 2 if not_played else 0


def _write_page() -> int:
    PAGE.write_text(page(load()), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.report_cards",
        description="Run stock clients across faults, judge them, and write docs/reference/clients.md. Cards of "
        "clients and scenes that are not chosen stay as they are.",
    )
    parser.add_argument("--client", action="append", choices=list(DRIVERS), help="only this client; may be repeated")
    parser.add_argument(
        "--scene",
        action="append",
        choices=sorted({scene.name for scene in (*SCENES, *MEMBER_SCENES)}),
        help="only this scene; may be repeated",
    )
    parser.add_argument("--members", action="store_true", help="only the members of groups")
    parser.add_argument("--beside", choices=("understudy", "kafka"), help="only the brokers of one of the two")
    parser.add_argument("--keep", metavar="DIR", help="keep the run folders and the drivers' standard error there")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page from the cards that are kept")
    return parser


def _built(
    clients: list[str], folder: Path, programs: Mapping[str, Callable[[Path], list[str]]]
) -> dict[str, list[str]]:
    kept = load()
    commands: dict[str, list[str]] = {}
    for client in clients:
        own = folder / "drivers" / client.replace(" ", "-")
        own.mkdir(parents=True, exist_ok=True)
        try:
            commands[client] = programs[client](own)
            kept.not_run.pop(client, None)
        except NotBuilt as why:
            kept.not_run[client] = str(why)
            print(f"{client}: not run: {why}", file=sys.stderr)
    store(kept)
    return commands


def _clusters(beside: str | None) -> list[tuple[str, ApacheKafka | None]]:
    found: list[tuple[str, ApacheKafka | None]] = [] if beside == "kafka" else [(OURS, None)]
    if beside != "understudy":
        try:
            found.append((KAFKAS, ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM)))
        except NotFetched as why:
            print(f"not run beside {KAFKAS}: {why}", file=sys.stderr)
    return found


def _play(scene: Scene, cluster: str, kafka: ApacheKafka | None, commands: dict[str, list[str]], folder: Path) -> bool:
    """Play one scene, and keep and print its cards; return whether it was played."""
    own = folder / f"{'understudy' if kafka is None else 'kafka'}-{scene.name.replace(' ', '-')}"
    own.mkdir(parents=True)
    try:
        cards = run_scene(scene, commands, own, kafka)
    except ClusterError as error:
        print(f"{scene.name} was not played with {cluster}: {error}", file=sys.stderr)
        return False
    kept = load()  # another run may have kept cards meanwhile
    kept.keep(cluster, scene.name, cards)
    store(kept)
    for client, card in cards.items():
        print(f"{cluster} / {scene.name} / {client}: {_in_words(card)}", flush=True)
    return True


def _play_members(
    scene: Scene, cluster: str, kafka: ApacheKafka | None, commands: dict[str, list[str]], folder: Path
) -> bool:
    """Play one scene beside members of groups, and keep and print its cards; return whether it was played."""
    own = folder / f"{'understudy' if kafka is None else 'kafka'}-members-{scene.name.replace(' ', '-')}"
    own.mkdir(parents=True)
    try:
        cards = run_members(scene, commands, own, kafka)
    except ClusterError as error:
        print(f"{scene.name} was not played with {cluster}: {error}", file=sys.stderr)
        return False
    kept = load()
    kept.keep_group(cluster, scene.name, cards)
    store(kept)
    for client, card in cards.items():
        print(f"{cluster} / {scene.name} / members of {client}: {card}", flush=True)
    return True


def _in_words(card: Card) -> str:
    verdict = "passed" if card.passed else f"failed: {'; '.join(card.reasons)}"
    return (
        f"{verdict} (admin {card.admin_ms} ms {card.admin_errors or ''}, producer {card.sent_ms} ms "
        f"{card.failed or ''}, consumer {card.read_ms} ms)"
    )


if __name__ == "__main__":
    sys.exit(main())
