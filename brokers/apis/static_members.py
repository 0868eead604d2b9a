"""Decides when requests of static members are refused: if `inter.broker.protocol.version` is below 2.3.

An older coordinator that takes over would drop the instance ids, and static members would become dynamic ones.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices
from understudy.foundation.cluster.metadata_version import MetadataVersion


def is_refused(services: BrokerServices, group_instance_id: str | None) -> bool:
    """Whether a request is answered UNSUPPORTED_VERSION because it has an instance id."""
    return group_instance_id is not None and services.config.metadata_version < MetadataVersion.IBP_2_3_IV0
