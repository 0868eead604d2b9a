"""Derives from one seed a random number generator for each node and purpose.

With one generator per purpose, a draw that is added in one place changes no draw in another: a seed that failed before
such a change still runs in the same way after it.
"""

from __future__ import annotations

import random
from hashlib import blake2b


def derived(seed: int, *names: object) -> random.Random:
    """The random number generator of `seed` for the purpose `names`, for example `"network", "jitter"`."""
    key = "/".join([str(seed), *map(str, names)])
    return random.Random(int.from_bytes(blake2b(key.encode(), digest_size=8).digest()))
