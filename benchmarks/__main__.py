"""`make bench` runs all benchmarks, or those named on the command line, one after the other, and prints their rows."""

from __future__ import annotations

import argparse
import importlib

from benchmarks.rows import print_rows

BENCHMARKS = (
    "codec", "zookeeper", "simulator", "cluster", "controller", "scale", "records", "groups", "idle", "spark", "lake",
    "clocks", "seeds", "follow", "proxy", "fixture", "repeats", "page", "mirror", "replicas", "virtual-client",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Prints ratios: ours to the reference. Asserts nothing."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)} (default: all)")
    chosen = parser.parse_args().names or BENCHMARKS
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in chosen:
        print(f"{name}:", flush=True)
        print_rows(importlib.import_module(f"benchmarks.{name.replace('-', '_')}").run())


if __name__ == "__main__":
    main()
