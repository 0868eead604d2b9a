"""A cluster in containers for tests of a Kafka client: the verbs and conditions of `understudy.testing`.

from understudy.testing import controller_change
from understudy.testing.containers import ClusterInContainers

with ClusterInContainers(brokers=3, topics={"orders": 3}) as cluster:
    cluster.controller.kill()
    cluster.wait_for(controller_change())
"""

from __future__ import annotations

from understudy.clusters.containers.docker_command import DockerFailed, NoDocker
from understudy.clusters.testing.cluster_in_containers import ClusterInContainers

__all__ = ["ClusterInContainers", "DockerFailed", "NoDocker"]
