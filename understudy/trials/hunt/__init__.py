"""Runs many seeds of the simulator, shrinks those that fail, and writes down what was found.

`seed_tasks` cuts a hunt into tasks for processes or Spark; `failed_seeds` writes a failed seed down, with its plan
(`plan_files`) shrunk by `plan_shrinking`, which stands on the delta debugging of `shrinking`; `ledger` adds the line of
a hunt to a page; `mutants` hunts with one fence or fix switched off. It imports `understudy.clusters.simulated` and
what is below. Kafka has no counterpart.
"""
