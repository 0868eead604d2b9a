"""Trials: things done to a cluster, and a verdict.

`experiments` runs scenarios from files, `lessons` are experiments that explain what is seen, `seeds` draws faults and
requests from a number, `hunt` searches for a seed that fails and shrinks it, `soak` lasts for hours, and `sweep` runs
one failover for each combination of settings.
"""
