"""Runs a simulated test for its seeds: in worker processes with a fixed hash seed, each seed in a process of its own.

`calls.py` is what a call of a test does. `search.py` spreads seeds over slots and ends at the first failure; a slot
(`slots.py`) is a worker process, or a process that this one forks. `pool.py` starts workers; `worker.py` is the program
of a worker, which finds the test (`pytest_worker.py`, `plain_worker.py`) and runs seeds of it (`serving.py`).
"""
