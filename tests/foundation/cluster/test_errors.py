"""Error messages always fit a response: a message too long for a Kafka string would lose the whole response."""

from __future__ import annotations

import pytest

from foundation.cluster.errors import ApiError, Errors
from foundation.wire.codec import decode, encode
from foundation.wire.messages.alter_configs import AlterConfigsResourceResponse, AlterConfigsResponse
from foundation.wire.primitives import MAX_STRING_BYTES


@pytest.mark.parametrize("letter", ["a", "ü", "€", "𝄞"])
def test_an_error_message_longer_than_a_kafka_string_is_cut_between_characters(letter: str) -> None:
    refusal = ApiError(Errors.INVALID_CONFIG, f"Unknown: {letter * MAX_STRING_BYTES}")
    answer = AlterConfigsResponse(responses=(AlterConfigsResourceResponse(error_message=refusal.message),))
    assert decode(AlterConfigsResponse, 0, encode(answer, 0)) == answer
    assert refusal.message.startswith(f"Unknown: {letter}")
    assert refusal.message.endswith(f"{letter}…")


def test_an_error_message_that_fits_is_kept_whole() -> None:
    longest = "a" * MAX_STRING_BYTES
    assert ApiError(Errors.INVALID_CONFIG, longest).message == longest
