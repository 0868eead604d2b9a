"""What a run of a test loads: modules of Understudy, and the codecs of messages.

After a run its worker loads the same. The processes forked from it for further seeds have it then, which saves them a
tenth of their processor time.
"""

from __future__ import annotations

import importlib
import sys
from typing import NamedTuple

from understudy.foundation.wire.codec import codec_of, kept_codecs
from understudy.foundation.wire.schema import Message

_OURS = "understudy."


class Loaded(NamedTuple):
    """What a process has loaded.

    Attributes:
        modules: names of modules of Understudy; a user's module may do anything while it is imported.
        codecs: messages and their versions.
    """

    modules: tuple[str, ...]
    codecs: tuple[tuple[type[Message], int], ...]


def loaded_now() -> Loaded:
    """Return what this process has loaded."""
    return Loaded(tuple(name for name in sys.modules if name.startswith(_OURS)), kept_codecs())


def loaded_since(earlier: Loaded) -> Loaded:
    """Return what this process has loaded since then."""
    now = loaded_now()
    modules, codecs = set(earlier.modules), set(earlier.codecs)
    return Loaded(
        tuple(name for name in now.modules if name not in modules),
        tuple(codec for codec in now.codecs if codec not in codecs),
    )


def load(loaded: Loaded) -> None:
    """Load the same in this process, which has none of it."""
    for name in loaded.modules:
        importlib.import_module(name)
    for message, version in loaded.codecs:
        codec_of(message, version)
