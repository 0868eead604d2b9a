"""The invariants of a cluster, checked against what a run has recorded: event logs and the history of the znodes.

Each invariant is one class with an id, a sentence and a fold over records and transactions. The package imports the
record types and knows the znodes' format, but none of the code that it checks, so no bug there hides itself here.
The same checks read simulated runs, runs of real processes and histories written by hand.
"""
