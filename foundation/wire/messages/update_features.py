"""UpdateFeatures (key 57): finalize features, or delete finalized ones (KIP-584).

Versions: 1 an upgrade type in place of a flag, and requests that are only validated (KIP-778). Both are flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int8, int16, int32, since, until


class UpdateFeaturesRequest(Message, frozen=True, kw_only=True):
    timeout_ms: int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[bool, since(1)] = False


class FeatureUpdateKey(Message, frozen=True, kw_only=True):
    feature: str = ""
    max_version_level: int16 = 0
    """The version to finalize; below 1 to delete the feature."""
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[int8, since(1)] = 1
    """1 upgrade only, 2 safe downgrade, 3 unsafe downgrade."""


class UpdateFeaturesResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    """Other than 0: no update was processed."""
    error_message: str | None = None
    results: tuple[UpdatableFeatureResult, ...] = ()


class UpdatableFeatureResult(Message, frozen=True, kw_only=True):
    feature: str = ""
    error_code: int16 = 0
    error_message: str | None = None
