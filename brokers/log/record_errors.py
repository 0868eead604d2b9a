"""Gives records that cannot be read their error code. Mirrors `Errors.forException`."""

from __future__ import annotations

from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.records.compression import RecordsTooLarge
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, NotDecompressed, UnsupportedMagic


def api_error(error: CorruptRecord | InvalidRecord | UnsupportedMagic) -> ApiError:
    """Return the error of an answer about records that could not be read.

    A producer sends a batch with CORRUPT_MESSAGE again until its delivery timeout has passed, and one with
    MESSAGE_TOO_LARGE in parts; the other codes end it at once.
    """
    return ApiError(_code(error), str(error))


def _code(error: CorruptRecord | InvalidRecord | UnsupportedMagic) -> Errors:
    match error:
        case NotDecompressed():
            return Errors.UNKNOWN_SERVER_ERROR
        case CorruptRecord():
            return Errors.CORRUPT_MESSAGE
        case RecordsTooLarge():
            return Errors.MESSAGE_TOO_LARGE
        case InvalidRecord():
            return Errors.INVALID_RECORD
        case UnsupportedMagic():
            return Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT
