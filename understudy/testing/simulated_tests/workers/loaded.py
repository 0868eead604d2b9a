"""What a run of a test loads: modules of Understudy, and the codecs of messages.

A worker loads the same after its first run. The processes forked from it for further seeds have it then, which saves
them a tenth of their processor time.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Set
from typing import NamedTuple

from understudy.foundation.wire.codec import codec_of, kept_codecs
from understudy.foundation.wire.schema import Message

_OURS = "understudy."


class Loaded(NamedTuple):
    """What a run has loaded.

    Attributes:
        modules: names of modules of Understudy; a user's module may do anything while it is imported.
        codecs: messages and their versions.
    """

    modules: tuple[str, ...]
    codecs: tuple[tuple[type[Message], int], ...]


def loaded_since(modules: Set[str]) -> Loaded:
    """Return what this process has loaded that a process with these modules and without codecs lacks."""
    return Loaded(tuple(name for name in sys.modules if name.startswith(_OURS) and name not in modules), kept_codecs())


def load(loaded: Loaded) -> None:
    """Load the same in this process."""
    for name in loaded.modules:
        importlib.import_module(name)
    kept = kept_codecs()
    for message, version in loaded.codecs:
        if (message, version) not in kept:
            codec_of(message, version)
