"""Notes about the failures in docs/reference/clients.md, by client. A note is shown if a scene of the client failed."""

from __future__ import annotations

from collections.abc import Mapping

NOTES: Mapping[str, str] = {
    "kafka-python": (
        "Why: the admin client keeps the controller's id, and asks for it again if an answer says NOT_CONTROLLER "
        "(`_send_request_to_controller`). A broker that is gone gives no answer, so that the id of a dead controller "
        "stays until the program makes a new admin client. The cluster has no part in it: the same happens beside "
        "Kafka."
    ),
    "confluent-kafka": (
        "Why: librdkafka reports NOT_CONTROLLER to the application and continues with the controller that it knows, "
        "until it asks for metadata for another reason, at the latest after `topic.metadata.refresh.interval.ms` (5 "
        "minutes). A broken connection is such a reason, and whether the answer then has the new controller already is "
        "a matter of the moment: a killed controller was found by some runs and not by others, beside the same brokers."
    ),
    "aiokafka": (
        "Why: the admin client would ask for the controller again after a `NotControllerError`, but nothing raises it: "
        "the error is in the answer to CreateTopics, which is returned as it is (`_send_to_controller`). A controller "
        "that is deposed and lives stays the client's controller until `metadata_max_age_ms` (5 minutes). If its "
        "connection ends, the client asks for metadata, and recovers."
    ),
}
