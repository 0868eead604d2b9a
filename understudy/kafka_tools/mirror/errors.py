"""`MirrorError`: the reason why a mirror cannot continue."""


class MirrorError(Exception):
    """A mirror cannot begin or continue. The message names the topic or cluster, and what to do."""
