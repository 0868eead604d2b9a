"""`MirrorError`: why a mirror cannot go on."""


class MirrorError(Exception):
    """A mirror cannot begin or go on. The message names the topic or cluster, and what to do."""
