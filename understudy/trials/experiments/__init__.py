"""Failure experiments: a file that says what is done to a cluster and what must hold, run in three worlds.

`language` reads the file, `engine` is the interface of an engine. `simulated`, `processes` and `compose` are engines;
the last two share `live`. `runner` runs the steps, `judging` reaches the verdict, and `report` writes it down. Only the
engines depend on whether the brokers are simulated.
"""
