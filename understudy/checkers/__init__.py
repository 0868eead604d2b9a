"""Invariants, each a sentence and a fold over what really happened: event-log records and the history of the znodes.

A checker knows Kafka's rules but none of the code that follows them: it imports the nouns, the event log's records and
the meaning of the znodes' bytes, nothing else. The same checks judge a simulation, real processes and a hand-made
history.
"""
