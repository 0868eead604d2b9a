"""Blocks of producer ids for brokers (KIP-730). Mirrors `processAllocateProducerIds`."""

from __future__ import annotations

from controller.events import AllocateProducerIds
from controller.term import Term


async def process_allocate_producer_ids(term: Term, event: AllocateProducerIds) -> None:
    """ZN-8."""
