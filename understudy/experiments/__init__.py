"""Failure experiments: a file that says what is done to a cluster and what must hold, run in three worlds.

`document` is such a file as values, `reading` reads it, `engine` is what an engine must be able to do, `runner` runs
the steps, and `judging` reaches the verdict. Nothing outside an engine knows whether the brokers are simulated.
"""
