"""What a run loads is loaded by its worker."""

from __future__ import annotations

import sys

from understudy.foundation.wire import codec
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest
from understudy.testing.simulated_tests.workers.forks import Child
from understudy.testing.simulated_tests.workers.loaded import Loaded, load, loaded_now, loaded_since

_MODULE = "understudy.testing.simulated_tests.faults.steps_by_hand"


def _run() -> Loaded:
    """Load a module and a codec, as a run does."""
    codec._codecs.clear()
    for name in [name for name in sys.modules if name == _MODULE]:
        del sys.modules[name]
    before = loaded_now()
    __import__(_MODULE)
    sys.modules["of_the_user"] = sys
    codec.encode(HeartbeatRequest(group_id="billing", generation_id=1, member_id=""), 3)
    return loaded_since(before)


def test_modules_of_ours_and_codecs_are_loaded_as_in_the_first_run() -> None:
    loaded = Child(_run).result()
    assert _MODULE in loaded.modules
    assert "of_the_user" not in loaded.modules
    assert loaded.codecs == ((HeartbeatRequest, 3),)

    def further() -> tuple[bool, Loaded]:
        codec._codecs.clear()
        before = loaded_now()
        load(loaded)
        return _MODULE in sys.modules, loaded_since(before)._replace(modules=())

    assert Child(further).result() == (True, Loaded((), loaded.codecs))
