"""The answers of a broker without an authorizer and without authentication, to the requests about ACLs and tokens.

Mirrors `kafka.server.AclApis` without an authorizer and `KafkaApis.allowTokenRequests` on a PLAINTEXT listener.
"""

from __future__ import annotations

from understudy.foundation.cluster.errors import ApiError, Errors

NO_AUTHORIZER = ApiError(Errors.SECURITY_DISABLED, "No Authorizer is configured.")
"""Error of every ACL that is to be created or deleted."""

NO_TOKENS = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
"""Error of every request about delegation tokens."""

NO_TIMESTAMP = -1
"""Time of a token that there is not."""

ANONYMOUS = ("User", "ANONYMOUS")
"""Type and name of the principal of every client."""
