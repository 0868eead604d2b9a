"""The codec writes and reads the same bytes as kio 0.5.0, in every version of every message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.wire.kio_oracle import ERROR_CODES, from_kio, kio_class, kio_decode, kio_encode, to_kio
from tests.foundation.wire.values import EVERY_VERSION, IDS, QUICK, messages
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import Message


@pytest.mark.parametrize(("api", "message", "version"), EVERY_VERSION, ids=IDS)
def test_same_bytes_both_ways(api: Api, message: type[Message], version: int) -> None:
    kind = kio_class(api, message, version)

    @QUICK
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        ours = data.draw(messages(message, version, error_codes=ERROR_CODES))
        theirs = to_kio(ours, kind, version)
        raw = kio_encode(theirs)
        assert encode(ours, version) == raw
        assert decode(message, version, raw) == ours
        assert from_kio(kio_decode(kind, raw), message, version) == ours

    check()
