"""Tests of features: `/feature` at a takeover, updates of features, incompatible brokers."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.controller.harness import ControllerHarness, TermHarness
from tests.controller.requests import UpdateMetadataSent
from understudy.controller.broker_lifecycle import process_broker_change, process_broker_modifications
from understudy.controller.events import FeatureUpdate, UpgradeType
from understudy.controller.failover import initialize_controller_context
from understudy.controller.feature_cache import FeatureCacheBehind, FinalizedFeatureCache
from understudy.controller.features import refusal, setup_feature_versioning
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.features import FinalizedFeatures, SupportedFeature
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import BrokersChanged, EventEnded
from understudy.foundation.zk.admin_znodes import Features, FeatureZNode
from understudy.foundation.zk.client import SetData
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure
from understudy.foundation.zk.znodes import BrokerIdZNode

EMPTY = b'{"features":{},"version":2,"status":1}'
UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


# ------------------------------------------------------------------ at a takeover


@pytest.mark.spec("FO-1", "ZN-7")
def test_failover_creates_feature_znode_and_waits_for_the_cache() -> None:
    with ControllerHarness() as harness:
        harness.start()
        assert harness.znodes()["/feature"] == EMPTY
        assert harness.broker(0).features.features == FinalizedFeatures({}, 0)
        names = harness.broker(0).points.passed
        assert names.index("features.after_write") < names.index("metadata.before_flush")


@pytest.mark.spec("FO-1")
def test_failover_fails_if_the_feature_cache_stays_behind() -> None:
    with ControllerHarness() as harness:
        harness.broker(0).features.update = lambda features: None  # type: ignore[method-assign]  # a listener that hangs
        harness.start()
        harness.settle(19_000)
        outcomes = [record.outcome for record in harness.broker(0).records(EventEnded) if record.event == "Startup"]
        assert outcomes == ["FeatureCacheBehind"]
        harness.settle(5_000)
        assert harness.broker(0).controller.epoch == 2, "what is there already needs no write, and no waiting"


@pytest.mark.spec("FO-1", "EL-13")
def test_feature_znode_that_keeps_conflicting_fails() -> None:
    with TermHarness() as harness:
        zk, rounds = harness.term.zk, []

        class Operator:
            """Writes between each read and its write."""

            async def reach(self, name: str) -> None:
                if name == "features.before_write":
                    rounds.append(name)
                    await zk.features.write(Features(1, False, {"f": len(rounds)}), await zk.features.read())

        harness.term.points = Operator()
        with pytest.raises(ZooKeeperFailure, match="/feature: BadVersion"):
            harness.run(setup_feature_versioning(harness.term))
        assert len(rounds) == harness.term.settings.conflict_rounds
        assert harness.znodes()["/feature"] == FeatureZNode.encode(Features(1, False, {"f": len(rounds)}))


@pytest.mark.spec("FO-1")
def test_wait_until_epoch() -> None:
    async def scenario() -> str:
        cache = FinalizedFeatureCache()
        waiting = asyncio.create_task(cache.wait_until_epoch(3, timeout_ms=5_000))
        for features in (FinalizedFeatures({}, 2), None, FinalizedFeatures({}, 4)):
            await asyncio.sleep(0)
            assert not waiting.done()
            cache.update(features)
        await waiting
        with pytest.raises(FeatureCacheBehind) as behind:
            await cache.wait_until_epoch(5, timeout_ms=1)
        return str(behind.value)

    assert asyncio.run(scenario()).endswith("at epoch 5, and after 1 ms this broker has read epoch 4")


# ------------------------------------------------------------------ updates of features


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (FeatureUpdate("", 1, None), "Feature name can not be empty."),
        (FeatureUpdate("f", 0, None), "Received unknown upgrade type."),
        (FeatureUpdate("f", 0, SAFE), "Can not delete non-existing finalized feature."),
        (FeatureUpdate("f", -1, UNSAFE), "Can not delete non-existing finalized feature."),
        (
            FeatureUpdate("f", 0, UPGRADE),
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        ),
        (
            FeatureUpdate("f", 2, UPGRADE),
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
        (
            FeatureUpdate("f", 1, SAFE),
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
    ],
)
def test_refusal_of_feature_updates(update: FeatureUpdate, why: str) -> None:
    refused = refusal(update)
    assert (refused.error, refused.message) == (Errors.INVALID_REQUEST, why)


def test_update_features_refuses_each_update() -> None:
    with ControllerHarness(electable=(0, 1)) as harness:
        harness.start()
        controller, other = harness.broker(0), harness.broker(1)
        updates = [FeatureUpdate("g", 1, UPGRADE), FeatureUpdate("f", 0, SAFE), FeatureUpdate("g", 0, None)]
        answered = controller.run(controller.controller.update_features(updates))
        assert not isinstance(answered, ApiError)
        assert {feature: why.message.split()[0] for feature, why in answered.items()} == {"g": "Could", "f": "Can"}
        assert controller.run(controller.controller.update_features([])) == {}
        elsewhere = other.run(other.controller.update_features(updates))
        assert isinstance(elsewhere, ApiError)
        assert elsewhere.error is Errors.NOT_CONTROLLER
        assert harness.znodes()["/feature"] == EMPTY


# ------------------------------------------------------------------ incompatible brokers


def finalize(harness: TermHarness, **levels: int) -> None:
    """Finalize features by hand, as a broker that supports them."""
    harness.term.features.update(FinalizedFeatures(levels, 1))


def support(harness: TermHarness, broker: int, *features: SupportedFeature) -> None:
    """Rewrite a registration with other features; the broker epoch stays."""
    path = BrokerIdZNode.path(broker)
    fields = json.loads(harness.znodes()[path] or b"")
    fields["features"] = {f.name: {"min_version": f.min_version, "max_version": f.max_version} for f in features}
    harness.operator.run(harness.operator.client.write(SetData(path, json.dumps(fields).encode())))


def live(harness: TermHarness) -> tuple[BrokerId, ...]:
    return harness.term.context.live_or_shutting_down_broker_ids


def change(harness: TermHarness) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Return the broker changes that the controller finds: new, dead, bounced."""
    harness.clear_history()
    harness.run(process_broker_change(harness.term))
    return [(record.new, record.dead, record.bounced) for record in harness.controller.records(BrokersChanged)]


@pytest.mark.spec("FO-5", "BR-8")
def test_failover_leaves_out_incompatible_brokers() -> None:
    with TermHarness() as harness:
        finalize(harness, f=2)
        support(harness, 0, SupportedFeature("f", 1, 2))
        support(harness, 1, SupportedFeature("f", 1, 1))
        harness.term.context.remove_live_brokers(live(harness))
        harness.term.channels.shutdown()
        harness.run(initialize_controller_context(harness.term))
        assert live(harness) == (0,)


@pytest.mark.spec("BR-8", "BR-11", "BUG-22")
def test_incompatible_broker_is_ignored_at_every_broker_change() -> None:
    with TermHarness({"orders": {0: [1, 2]}}) as harness:
        finalize(harness, f=2)
        harness.broker(1).crash()
        assert change(harness) == [((), (1,), ())]
        harness.broker(1).start()
        assert change(harness) == [], "in Kafka it is new"
        assert change(harness) == [], "and new again (BUG-22)"
        assert live(harness) == (0, 2), "those that were there before it was finalized stay"
        assert harness.broker(1).requests() == []
        support(harness, 1, SupportedFeature("f", 1, 5))
        assert change(harness) == [((1,), (), ())]
        assert live(harness) == (0, 1, 2)


@pytest.mark.spec("BR-8", "BR-9")
def test_broker_whose_next_registration_is_incompatible_is_dead() -> None:
    with TermHarness() as harness:
        finalize(harness, f=2)
        harness.broker(2).crash()
        harness.broker(2).start()
        assert change(harness) == [((), (2,), ())]
        assert live(harness) == (0, 1)


@pytest.mark.spec("BR-16")
def test_changed_features_of_a_broker_are_sent_to_all() -> None:
    with TermHarness() as harness:
        harness.clear_history()
        support(harness, 1, SupportedFeature("f", 1, 5))
        harness.run(process_broker_modifications(harness.term, BrokerId(1)))
        harness.settle()
        assert harness.broker(2).requests() == [UpdateMetadataSent([], live_brokers=[0, 1, 2])]
        known = harness.term.context.broker(BrokerId(1))
        assert known is not None
        assert known.features == (SupportedFeature("f", 1, 5),)
        harness.run(process_broker_modifications(harness.term, BrokerId(1)))
        harness.settle()
        assert len(harness.broker(2).requests()) == 1, "nothing has changed since"


@pytest.mark.spec("BUG-23", "BR-16")
def test_channel_keeps_the_old_address_until_the_broker_bounces() -> None:
    with TermHarness() as harness:
        path = BrokerIdZNode.path(1)
        moved = (harness.znodes()[path] or b"").replace(b"//broker-1:", b"//nowhere:")
        harness.operator.run(harness.operator.client.write(SetData(path, moved)))
        harness.clear_history()
        harness.run(process_broker_modifications(harness.term, BrokerId(1)))
        harness.settle()
        assert [len(harness.broker(broker).received) for broker in (1, 2)] == [1, 1]
        known = harness.term.context.broker(BrokerId(1))
        assert known is not None
        assert [endpoint.host for endpoint in known.endpoints] == ["nowhere"], "and the other brokers receive it"
