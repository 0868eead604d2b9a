"""Mutants by single tokens: changes of one token each in `controller/` and `brokers/replication/`, drawn by a seed, and
judged by the tests and the simulator's seeds. `python -m devtools.token_mutants` runs them and writes
docs/inside/token-mutants.md.
"""
