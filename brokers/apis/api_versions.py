"""ApiVersions (key 18, versions 0 to 4): the APIs and versions that this broker serves, collected from the handlers.

An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of this API (AP-2). The header of
every response is the oldest, so that a newer client can begin again with a lower version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.features import FinalizedFeatures
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.registry import api_of

VERSIONS = (0, 4)
UNKNOWN_FINALIZED_FEATURES_EPOCH = -1

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_VERSION_WITH_SOFTWARE = 3


def answer(
    request: ApiVersionsRequest, version: int, served: Sequence[ApiVersion], features: FinalizedFeatures | None
) -> ApiVersionsResponse:
    """Return the `served` versions, and the epoch of the finalized features, of which there are none (KIP-584).

    The error is INVALID_REQUEST if the name or version of the client's software is malformed (KIP-511).
    """
    names = (request.client_software_name, request.client_software_version)
    if version >= FIRST_VERSION_WITH_SOFTWARE and not all(map(_SOFTWARE.fullmatch, names)):
        return ApiVersionsResponse(error_code=Errors.INVALID_REQUEST)
    epoch = UNKNOWN_FINALIZED_FEATURES_EPOCH if features is None else features.epoch
    return ApiVersionsResponse(api_keys=tuple(served), finalized_features_epoch=epoch)


def served_versions(served: Sequence[Serves[Any]]) -> tuple[ApiVersion, ...]:
    """Return one entry per API in the order of keys, this API included."""
    ranges = {api_of(serves.request).key: serves.versions for serves in served}
    ranges[api_of(ApiVersionsRequest).key] = VERSIONS
    return tuple(
        ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(ranges.items())
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the response, in version 0, to a request of an unknown version."""
    low, high = VERSIONS
    key = api_of(ApiVersionsRequest).key
    return ApiVersionsResponse(
        error_code=Errors.UNSUPPORTED_VERSION, api_keys=(ApiVersion(api_key=key, min_version=low, max_version=high),)
    )
