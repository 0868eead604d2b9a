"""Tests of error codes and messages: names of unknown codes, and messages that fit a response."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from understudy.foundation.cluster.errors import ApiError, Errors, error_for_code, error_name
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.messages.alter_configs import AlterConfigsResourceResponse, AlterConfigsResponse
from understudy.foundation.wire.primitives import MAX_STRING_BYTES


@pytest.mark.parametrize(
    ("code", "error", "name"),
    [
        (0, Errors.NONE, "NONE"),
        (-1, Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
        (41, Errors.NOT_CONTROLLER, "NOT_CONTROLLER"),
        (999, Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_ERROR_CODE_999"),
        (-7, Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_ERROR_CODE_-7"),
    ],
)
def test_unknown_error_code_is_handled_as_unknown_server_error_and_named_with_its_number(
    code: int, error: Errors, name: str
) -> None:
    assert (error_for_code(code), error_name(code)) == (error, name)


def test_every_error_code_of_kafka_has_its_name() -> None:
    """kio 0.5.0 has the codes of Kafka 3.9."""
    assert {error.value: error.name for error in Errors} == {code.value: code.name.upper() for code in ErrorCode}


@pytest.mark.parametrize("letter", ["a", "ü", "€", "𝄞"])
def test_an_error_message_longer_than_a_kafka_string_is_cut_between_characters(letter: str) -> None:
    """A message too long for a Kafka string would lose the whole response."""
    refusal = ApiError(Errors.INVALID_CONFIG, f"Unknown: {letter * MAX_STRING_BYTES}")
    answer = AlterConfigsResponse(responses=(AlterConfigsResourceResponse(error_message=refusal.message),))
    assert decode(AlterConfigsResponse, 0, encode(answer, 0)) == answer
    assert refusal.message.startswith(f"Unknown: {letter}")
    assert refusal.message.endswith(f"{letter}…")


def test_an_error_message_that_fits_is_kept_whole() -> None:
    longest = "a" * MAX_STRING_BYTES
    assert ApiError(Errors.INVALID_CONFIG, longest).message == longest
