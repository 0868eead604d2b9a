"""`AdminClient` sends admin requests over Kafka's protocol: about topics, configs, groups and records.

It uses the `Network` port, so that the demo, the golden scenarios, the simulator and the tools share it. Each request
is written once, in the modules of its base classes; `ClusterRequests` finds the broker to ask, and asks again. Mirrors
the part of `org.apache.kafka.clients.admin.KafkaAdminClient` that is needed here.
"""

from __future__ import annotations

from understudy.clusters.clients.config_requests import ConfigRequests
from understudy.clusters.clients.group_requests import GroupRequests
from understudy.clusters.clients.record_requests import RecordRequests
from understudy.clusters.clients.topic_requests import TopicRequests


class AdminClient(TopicRequests, ConfigRequests, GroupRequests, RecordRequests):
    """A client of one cluster. It opens a connection for each request and closes it after the response."""

    def with_bootstrap(self, *bootstrap: str, timeout_ms: int | None = None) -> AdminClient:
        """Return a client of the same cluster with other bootstrap servers and, if given, another timeout."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return AdminClient(self._network, bootstrap, client_id=self._client_id, timeout_ms=timeout_ms)
