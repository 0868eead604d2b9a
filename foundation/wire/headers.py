"""Encodes and decodes whole requests and responses: size, header and body.

Request headers: version 0 for ControlledShutdown v0 only (no client id), 1 for legacy versions, 2 for flexible ones.
Response headers: version 0, or 1 for flexible versions; but always 0 for ApiVersions, so that a client that does not
know the broker's versions yet can decode it. For the same reason the client id is a legacy string in every version.
Mirrors `RequestHeader`, `ResponseHeader` and `ApiKeys.requestHeaderVersion`.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

import msgspec

from understudy.foundation.wire.codec import decode, encode_frame
from understudy.foundation.wire.errors import MalformedMessage, UnencodableValue, UnsupportedVersion
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from understudy.foundation.wire.primitives import MAX_STRING_BYTES, skip_tagged_fields
from understudy.foundation.wire.registry import Api, api_by_key, api_of
from understudy.foundation.wire.schema import Message

_SIZE: Final = Struct(">i")
_REQUEST_START: Final = Struct(">hhi")
_STRING_LENGTH: Final = Struct(">h")
_CORRELATION_ID: Final = Struct(">i")
_NO_TAGGED_FIELDS: Final = b"\0"


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api: Api, api_version: int) -> int:
    if api_version >= api.flexible_from:
        return 2
    return 0 if api_version == 0 and api.request is ControlledShutdownRequest else 1


def response_header_version(api: Api, api_version: int) -> int:
    return 1 if api_version >= api.flexible_from and api.request is not ApiVersionsRequest else 0


def encode_request(
    message: Message, api_version: int, correlation_id: int, client_id: str | None, *, body: bytes | None = None
) -> bytes:
    """Encode a whole frame: size, header and body.

    Args:
        body: the encoded body of `message` at `api_version`; None if it is not encoded yet.

    Raises:
        UnsupportedVersion: see `codec.encode`.
        UnencodableValue: see `codec.encode`.
    """
    api = api_of(message)
    header_version = request_header_version(api, api_version)
    header = _REQUEST_START.pack(api.key, api_version, correlation_id)
    if header_version >= 1:
        header += _client_id(client_id)
    if header_version >= 2:
        header += _NO_TAGGED_FIELDS
    if body is None:
        return encode_frame(message, api_version, header)
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Decode the header of a request frame (without its size); return it with the position of the body.

    The API version is not checked: even an ApiVersions request of an unknown version has to be answered.

    Raises:
        UnsupportedVersion: the API is unknown, and with it the end of the header.
        MalformedMessage: the header cannot be decoded.
    """
    offset, field, header_version = 0, "api_key", 0
    try:
        api_key, api_version, correlation_id = _REQUEST_START.unpack_from(frame)
        api = api_by_key(api_key)
        if api is None:
            raise UnsupportedVersion(f"request of api key {api_key} (version {api_version}): no such API is known here")
        header_version = request_header_version(api, api_version)
        offset, field, client_id = _REQUEST_START.size, "client_id", None
        if header_version >= 1:
            client_id, offset = _read_client_id(frame, offset)
        if header_version >= 2:
            field = "tagged fields"
            count = frame[offset]
            offset = skip_tagged_fields(frame, offset + 1, count) if count else offset + 1
    except (error, IndexError, ValueError) as reason:
        raise MalformedMessage("RequestHeader", header_version, field, offset, str(reason)) from reason
    return RequestHeader(api_key, api_version, correlation_id, client_id), offset


def decode_request(frame: bytes) -> tuple[RequestHeader, Message]:
    """Decode the header and message of a request frame (without its size).

    Raises:
        UnsupportedVersion: the API, or this version of it, is unknown.
        MalformedMessage: header or body cannot be decoded.
    """
    header, position = decode_request_header(frame)
    api = api_by_key(header.api_key)
    assert api is not None
    return header, decode(api.request, header.api_version, frame, position)


def encode_response(api: Api, api_version: int, correlation_id: int, message: Message) -> bytes:
    """Encode a whole frame: size, header and body.

    Raises:
        UnsupportedVersion: see `codec.encode`.
        UnencodableValue: see `codec.encode`.
    """
    header = _CORRELATION_ID.pack(correlation_id)
    if response_header_version(api, api_version) >= 1:
        header += _NO_TAGGED_FIELDS
    return encode_frame(message, api_version, header)


def decode_response(api: Api, api_version: int, frame: bytes) -> tuple[int, Message]:
    """Decode the correlation id and message of the response (without its size) to a request of `api_version`.

    A broker that does not know the version of an ApiVersions request answers in version 0, which is tried as well.

    Raises:
        UnsupportedVersion: the API has no such version.
        MalformedMessage: header or body cannot be decoded.
    """
    header_version = response_header_version(api, api_version)
    offset, field = 0, "correlation_id"
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
        offset, field = _CORRELATION_ID.size, "tagged fields"
        if header_version >= 1:
            offset = skip_tagged_fields(frame, offset + 1, frame[offset])
    except (error, IndexError, ValueError) as reason:
        raise MalformedMessage("ResponseHeader", header_version, field, offset, str(reason)) from reason
    try:
        return correlation_id, decode(api.response, api_version, frame, offset)
    except MalformedMessage:
        if api.request is not ApiVersionsRequest or api_version == 0:
            raise
    return correlation_id, decode(api.response, 0, frame, offset)


def _client_id(client_id: str | None) -> bytes:
    if client_id is None:
        return _STRING_LENGTH.pack(-1)
    raw = client_id.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise UnencodableValue(f"client id of {len(raw)} bytes; at most {MAX_STRING_BYTES} can be sent")
    return _STRING_LENGTH.pack(len(raw)) + raw


def _read_client_id(frame: bytes, offset: int) -> tuple[str | None, int]:
    (length,) = _STRING_LENGTH.unpack_from(frame, offset)
    offset += _STRING_LENGTH.size
    if length == -1:
        return None, offset
    if not 0 <= length <= len(frame) - offset:
        raise ValueError(f"client id of {length} bytes, {len(frame) - offset} are left")
    return frame[offset : offset + length].decode(), offset + length
