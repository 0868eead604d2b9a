"""Request and response headers: frame sizes, header versions, client ids; kio's header schemas are the oracle."""

from __future__ import annotations

import importlib
from struct import pack, unpack_from

import pytest

from tests.foundation.wire.kio_oracle import kio_class
from tests.foundation.wire.values import EVERY_MESSAGE, versions
from understudy.foundation.wire.errors import MalformedMessage, UnencodableValue
from understudy.foundation.wire.headers import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from understudy.foundation.wire.messages.metadata import MetadataRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataResponse
from understudy.foundation.wire.registry import APIS, Api, api_by_key, api_of
from understudy.foundation.wire.schema import Message


@pytest.mark.spec("AP-3")
@pytest.mark.parametrize(("api", "message"), EVERY_MESSAGE)
def test_header_versions_are_kafkas(api: Api, message: type[Message]) -> None:
    header_version = request_header_version if message is api.request else response_header_version
    for version in versions(api):
        kind = kio_class(api, message, version)
        assert kind.__api_key__ == api.key, version
        assert kind.__flexible__ == api.is_flexible(version), version
        assert kind.__header_schema__.__version__ == header_version(api, version), version


@pytest.mark.parametrize("api", APIS, ids=[api.name for api in APIS])
def test_the_highest_version_of_each_api_is_kafkas(api: Api) -> None:
    module = kio_class(api, api.request, api.max_version).__module__
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module.replace(f"v{api.max_version}.", f"v{api.max_version + 1}."))
    assert api_by_key(api.key) is api
    assert api_of(api.response) is api_of(api.request()) is api


@pytest.mark.parametrize("client_id", ["broker-1", "", "bröker", None])
@pytest.mark.parametrize("version", [1, 12])
def test_a_request_frame_is_read_back_with_its_header(version: int, client_id: str | None) -> None:
    frame = encode_request(MetadataRequest(topics=()), version, 41, client_id)
    assert unpack_from(">ihhi", frame) == (len(frame) - 4, 3, version, 41)
    assert decode_request(frame[4:]) == (RequestHeader(3, version, 41, client_id), MetadataRequest(topics=()))


def test_the_client_id_stays_a_legacy_string_in_flexible_versions() -> None:
    frame = encode_request(ApiVersionsRequest(), 3, 1, "me")
    assert frame[12:17] == b"\0\2me\0"


@pytest.mark.spec("AP-3")
def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    frame = encode_request(ControlledShutdownRequest(broker_id=3), 0, 1, "ignored")
    assert frame[4:] == pack(">hhii", 7, 0, 1, 3)
    assert decode_request(frame[4:]) == (RequestHeader(7, 0, 1, None), ControlledShutdownRequest(broker_id=3))


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    frame = pack(">hhih", 18, 3, 9, -1) + b"\1\x63\2ab" + b"\1\1\0"
    header, position = decode_request_header(frame)
    assert (header, frame[position:]) == (RequestHeader(18, 3, 9, None), b"\1\1\0")


@pytest.mark.spec("AP-2")
def test_the_header_of_an_unknown_version_of_api_versions_is_read() -> None:
    """An ApiVersions request of a newer client must be answered, so its header is read although its body cannot be."""
    header, _ = decode_request_header(pack(">hhih", 18, 99, 9, 2) + b"me\0" + b"whatever")
    assert header == RequestHeader(18, 99, 9, "me")


@pytest.mark.spec("AP-2")
def test_api_versions_answers_with_header_0_and_falls_back_to_body_0() -> None:
    api = api_of(ApiVersionsRequest)
    answer = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),))
    assert encode_response(api, 4, 7, ApiVersionsResponse())[4:8] == pack(">i", 7)
    assert decode_response(api, 4, encode_response(api, 4, 7, answer)[4:]) == (7, answer)
    assert decode_response(api, 4, encode_response(api, 0, 7, answer)[4:]) == (7, answer)


def test_a_flexible_response_has_a_tagged_section_in_its_header() -> None:
    api = api_of(UpdateMetadataResponse)
    assert encode_response(api, 5, 7, UpdateMetadataResponse(error_code=1)) == pack(">iih", 6, 7, 1)
    assert encode_response(api, 6, 7, UpdateMetadataResponse(error_code=1)) == pack(">iibhb", 8, 7, 0, 1, 0)
    assert decode_response(api, 6, pack(">ib", 7, 1) + b"\5\0" + b"\0\1\0") == (7, UpdateMetadataResponse(error_code=1))


@pytest.mark.parametrize(
    ("version", "frame", "text"),
    [
        (6, b"", "ResponseHeader v1: correlation_id at offset 0"),
        (5, b"\0\0\0", "ResponseHeader v0: correlation_id at offset 0"),
        (6, b"\0\0\0\7", "ResponseHeader v1: tagged fields at offset 4"),
        (6, b"\0\0\0\7\1", "ResponseHeader v1: tagged fields at offset 4"),
        (6, b"\0\0\0\7\1\5\x7f", "ResponseHeader v1: tagged fields at offset 4"),
    ],
)
def test_a_broken_response_header_is_refused(version: int, frame: bytes, text: str) -> None:
    with pytest.raises(MalformedMessage, match=text):
        decode_response(api_of(UpdateMetadataResponse), version, frame)


def test_a_too_long_client_id_is_refused_with_its_length() -> None:
    with pytest.raises(UnencodableValue, match="client id of 40000 bytes"):
        encode_request(MetadataRequest(), 1, 1, "x" * 40000)
