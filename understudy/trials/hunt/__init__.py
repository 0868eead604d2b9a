"""Runs many seeds of the simulator, shrinks those that fail, and writes down what was found.

`seed_tasks` cuts a hunt into tasks for processes or Spark; `failed_seeds` writes a failed seed down, with its plan
(`plan_files`) shrunk by `plan_shrinking`, which uses the delta debugging of `shrinking`; `ledger` adds the line of a
hunt to a page; `mutants` hunts with one fence or fix switched off. The package imports `understudy.clusters.simulated`
and the layers below it. Kafka has no counterpart.
"""
