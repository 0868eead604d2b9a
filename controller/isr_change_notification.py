"""ISR changes that leaders wrote themselves, before KIP-497. Mirrors `processIsrChangeNotification`."""

from __future__ import annotations

from controller.term import Term


async def process_isr_change_notification(term: Term) -> None:
    """IS-18."""
