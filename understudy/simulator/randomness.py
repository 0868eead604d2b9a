"""One root seed, one generator per node and purpose, derived by name.

A draw added in one place does not shift the draws of all others, so that a seed found yesterday still tells its story.
"""

from __future__ import annotations

import random
from hashlib import blake2b


def derived(seed: int, *names: object) -> random.Random:
    """The generator of `seed` for the purpose that `names` spell."""
    key = "/".join([str(seed), *map(str, names)])
    return random.Random(int.from_bytes(blake2b(key.encode(), digest_size=8).digest()))
