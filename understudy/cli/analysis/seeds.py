"""Runs seeds in Spark, for `understudy simulate` and `understudy hunt`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain

from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.clusters.java import JavaNotFound
from understudy.foundation.eventlog.fences import Switch
from understudy.history.lake.errors import LakeError, NotALake
from understudy.spark.failures import SparkFailed
from understudy.spark.running import spark_running
from understudy.spark.seed_ledger import SeedHunt
from understudy.spark.seeds_job import run_seeds
from understudy.spark.settings import SparkSettings
from understudy.trials.hunt.seed_tasks import SeedOutcome


@reported_as(Failed, JavaNotFound, SparkFailed, LakeError)
@reported_as(BadInput, NotALake)
def simulate_in_spark(
    seeds: range, options: argparse.Namespace, summarise: Callable[[Iterable[SeedOutcome], str], int]
) -> int:
    """Run the seeds of `understudy simulate`.

    Args:
        summarise: takes the outcomes as they come, and what computes them; its value is returned.

    Raises:
        BadInput, Failed: the lake or Spark cannot be used.
    """
    try:
        settings = SparkSettings.chosen(master=options.spark)
        return summarise(_outcomes(seeds, options, settings), f"on {settings.engine}")
    except OSError as error:
        raise Failed(f"the lake {options.lake} cannot be written: {error}") from None


def _outcomes(seeds: range, options: argparse.Namespace, settings: SparkSettings) -> Iterator[SeedOutcome]:
    """Run the seeds that are not in the ledger; yield the outcomes of all."""
    hunt = None if options.lake is None else SeedHunt(options.lake, options.seconds)
    known = {} if hunt is None else hunt.known
    left = [seed for seed in seeds if seed not in known]
    if len(left) < len(seeds):
        print(f"{len(seeds) - len(left)} of {len(seeds)} seeds are in the ledger already", file=sys.stderr, flush=True)
    yield from (known[seed] for seed in seeds if seed in known)
    if not left:
        return
    with spark_running(settings) as spark:
        logs = None if hunt is None else hunt.logs
        for outcomes in run_seeds(spark, left, options.seconds, events=logs, keep_all=options.keep_all):
            if hunt is not None:
                hunt.keep(outcomes)
            yield from outcomes


def hunt_in_spark(seeds: range, options: argparse.Namespace, fences: tuple[Switch, ...]) -> Generator[SeedOutcome]:
    """Run the seeds of `understudy hunt`; yield their outcomes in order. Raises Failed."""
    with reported_as(Failed, JavaNotFound, SparkFailed):
        settings = SparkSettings.chosen(master=options.spark)
        with spark_running(settings) as spark:
            yield from chain.from_iterable(run_seeds(spark, seeds, options.seconds, fences_off=fences))
