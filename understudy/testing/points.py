"""`point`: names a place in a user's code, at which a simulated test can kill or pause the service."""

from __future__ import annotations

import asyncio


async def point(name: str) -> None:
    """Mark a place between two awaits, for example `await point("before commit")`.

    In a service of a test in virtual time the process is killed or paused there if that is armed, by `service.arm(name,
    "kill")` or by `crash_points`. Anywhere else, in production, on another loop or in another thread, it returns at
    once and does nothing.

    Args:
        name: any words; a service may reach the point often.
    """
    reached = getattr(asyncio.get_running_loop(), "at_point", None)
    if reached is not None:
        await reached(name)
