"""ApiVersions (key 18): the versions that a broker serves. The response always has header 0, so that all can decode it.

Versions: 1 throttle time; 3 flexible, client software, features (KIP-511, KIP-584); 4 features from version 0 may be
listed.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since, tag


class ApiVersionsRequest(Message, frozen=True, kw_only=True):
    client_software_name: Annotated[str, since(3), ignorable] = ""
    client_software_version: Annotated[str, since(3), ignorable] = ""


class ApiVersionsResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    """UNSUPPORTED_VERSION is answered in version 0, with the versions of this API only."""
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], since(3), tag(0), ignorable] = ()
    finalized_features_epoch: Annotated[int64, since(3), tag(1), ignorable] = -1
    """-1: unknown."""
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], since(3), tag(2), ignorable] = ()
    zk_migration_ready: Annotated[bool, since(3), tag(3), ignorable] = False
    """Never True from a broker in ZooKeeper mode."""


class ApiVersion(Message, frozen=True, kw_only=True):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Message, frozen=True, kw_only=True):
    name: str = ""
    min_version: int16 = 0
    max_version: int16 = 0


class FinalizedFeatureKey(Message, frozen=True, kw_only=True):
    name: str = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0
