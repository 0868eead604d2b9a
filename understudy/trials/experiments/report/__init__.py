"""What a run of an experiment leaves for a reader: the plan in words, the verdict, and its page."""
