"""The report of a run of an experiment: the plan in words, the verdict, and its page."""
