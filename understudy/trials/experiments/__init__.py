"""Failure experiments: a file that says what is done to a cluster and what must hold, run in three worlds.

`language` reads such a file, `engine` is what an engine must be able to do. `simulated`, `processes` and `compose` are
engines; the last two share `live`. `runner` runs the steps, `judging` reaches the verdict, and `report` writes it down.
Nothing outside an engine knows whether the brokers are simulated.
"""
