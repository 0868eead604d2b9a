"""UpdateFeatures (key 57, versions 0 and 1): changes finalized features (KIP-584), on the controller's broker only.

Brokers in ZooKeeper mode support no features, so each update is refused with its reason. Version 0 has a flag that
allows a lower version; version 1 has an upgrade type instead, which may be an unknown number.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.controller.events import NOT_THE_CONTROLLER, FeatureUpdate, UpgradeType
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITH_UPGRADE_TYPES = 1


async def handle(
    services: BrokerServices, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    if not services.controller.is_active:
        return UpdateFeaturesResponse(error_code=Errors.NOT_CONTROLLER, error_message=NOT_THE_CONTROLLER)
    outcome = await services.controller.update_features(
        [
            FeatureUpdate(asked.feature, asked.max_version_level, _upgrade_type(asked, context.api_version))
            for asked in request.feature_updates
        ]
    )
    if isinstance(outcome, ApiError):
        return UpdateFeaturesResponse(error_code=outcome.error, error_message=outcome.message or None)
    return UpdateFeaturesResponse(
        results=tuple(
            UpdatableFeatureResult(feature=feature, error_code=why.error, error_message=why.message)
            for feature, why in outcome.items()
        )
    )


def _upgrade_type(asked: FeatureUpdateKey, version: int) -> UpgradeType | None:
    if version < FIRST_VERSION_WITH_UPGRADE_TYPES:
        return UpgradeType.SAFE_DOWNGRADE if asked.allow_downgrade else UpgradeType.UPGRADE
    return next((known for known in UpgradeType if known.value == asked.upgrade_type), None)


SERVES = Serves(request=UpdateFeaturesRequest, versions=(0, 1), handle=handle, recorded=True)
