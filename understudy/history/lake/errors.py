"""Defines the errors of a lake that its user has to correct."""

from __future__ import annotations


class LakeError(Exception):
    """An error of a lake that its user has to correct. The message names the error and the remedy."""


class NotALake(LakeError):
    """The folder is not a lake, or its tables cannot be read."""


class EarlierLake(NotALake):
    """The lake was written by software before lakes were Delta tables."""


class LaterLake(LakeError):
    """The lake was written by later software."""


class LakeBusy(LakeError):
    """Other processes change the lake so often, or so much, that a change could not be made."""
