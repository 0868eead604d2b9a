"""Runs software beside brokers that die, and writes docs/reference/software.md: `python -m devtools.software`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from devtools.building import NotBuilt
from devtools.judges.maven import kafka_libs
from devtools.software.judge import Seen
from devtools.software.page import PAGE, ROOT, load, page, store
from devtools.software.programs import PROGRAMS
from devtools.software.run import run_program
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.apache_kafka import SMALL_JVM, ApacheKafka


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen programs one after the other, keep what was seen, and write the page.

    Returns:
        0 if every chosen program was run, whatever came of it; 2 if one was not.
    """
    chosen = _parser().parse_args(arguments)
    kafka = ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM) if chosen.kafka else None
    not_run = 0
    if not chosen.page:
        with tempfile.TemporaryDirectory(prefix="understudy-software-") as temporary:
            folder = Path(chosen.keep or temporary).absolute()
            for name in chosen.program or PROGRAMS:
                not_run += not _run(name, folder / name.replace(" ", "-"), kafka)
    if kafka is None:
        _write_page()
    return 2 if not_run else 0


def _write_page() -> None:
    PAGE.write_text(page(load()), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.software",
        description="Run software beside three brokers that are killed one after the other, and write "
        "docs/reference/software.md. Rows of programs that are not chosen stay as they are.",
    )
    parser.add_argument("--program", action="append", choices=list(PROGRAMS), help="only this one; may be repeated")
    parser.add_argument("--keep", metavar="DIR", help="keep the run folders and what the programs print there")
    parser.add_argument("--page", action="store_true", help="run nothing: write the page from the runs that were kept")
    parser.add_argument(
        "--kafka",
        action="store_true",
        help="beside brokers of Apache Kafka 3.9.1; keep and write nothing",
    )
    return parser


def _run(name: str, folder: Path, kafka: ApacheKafka | None) -> bool:
    """Run one program, and print what was seen, and keep it if the brokers are ours; return whether it was run."""
    program = PROGRAMS[name]
    for each in ("build", "run"):
        (folder / each).mkdir(parents=True)
    try:
        seen = run_program(program, program.build(folder / "build"), folder / "run", kafka)
    except (NotBuilt, ClusterError) as why:
        print(f"{name}: not run: {why}", file=sys.stderr, flush=True)
        if isinstance(why, NotBuilt) and kafka is None:
            kept = load()
            kept.not_run[name] = str(why)
            store(kept)
        return False
    if kafka is None:
        kept = load()
        kept.seen[name] = seen
        kept.not_run.pop(name, None)
        store(kept)
    print(f"{name}: {_in_words(seen)}", flush=True)
    return True


def _in_words(seen: Seen) -> str:
    verdict = "passed" if seen.passed else f"failed: {'; '.join(seen.reasons)}"
    return f"{verdict} ({seen.acknowledged} acknowledged, {seen.lost} lost, {seen.twice} twice, {seen.pause_ms} ms)"


if __name__ == "__main__":
    sys.exit(main())
