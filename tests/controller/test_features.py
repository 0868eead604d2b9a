"""`/feature` at a takeover, wishes for more, and brokers that cannot live with what is finalized."""

from __future__ import annotations

import asyncio
import json

import pytest

from controller.broker_lifecycle import process_broker_change, process_broker_modifications
from controller.events import FeatureUpdate, UpgradeType
from controller.failover import initialize_controller_context
from controller.feature_cache import FeatureCacheBehind, FinalizedFeatureCache
from controller.features import refusal, setup_feature_versioning
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.features import FinalizedFeatures, SupportedFeature
from foundation.cluster.identifiers import BrokerId
from foundation.eventlog.records import BrokersChanged, EventEnded
from foundation.zk.admin_znodes import Features, FeatureZNode
from foundation.zk.client import SetData
from foundation.zk.kafka_zk_client import ZooKeeperFailure
from foundation.zk.znodes import BrokerIdZNode
from tests.controller.office import Office
from tests.controller.stage import Stage

EMPTY = b'{"features":{},"version":2,"status":1}'
UPGRADE, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


# ------------------------------------------------------------------ at a takeover


@pytest.mark.spec("FO-1", "ZN-7")
def test_a_new_controller_makes_the_znode_and_waits_until_its_own_broker_has_read_it() -> None:
    with Stage() as stage:
        stage.start()
        assert stage.znodes()["/feature"] == EMPTY
        assert stage.member(0).features.features == FinalizedFeatures({}, 0)
        names = stage.member(0).points.passed
        assert names.index("features.after_write") < names.index("metadata.before_flush")


@pytest.mark.spec("FO-1")
def test_a_broker_that_does_not_hear_of_its_own_write_cannot_take_over() -> None:
    with Stage() as stage:
        stage.member(0).features.update = lambda features: None  # type: ignore[method-assign]  # a listener that hangs
        stage.start()
        stage.settle(19_000)
        outcomes = [record.outcome for record in stage.member(0).records(EventEnded) if record.event == "Startup"]
        assert outcomes == ["FeatureCacheBehind"]
        stage.settle(5_000)
        assert stage.member(0).controller.epoch == 2, "what is there already needs no write, and no waiting"


@pytest.mark.spec("FO-1", "EL-13")
def test_a_znode_that_changes_each_time_is_not_written_over() -> None:
    with Office() as office:
        zk, rounds = office.term.zk, []

        class Operator:
            """Writes between each read and its write."""

            async def reach(self, name: str) -> None:
                if name == "features.before_write":
                    rounds.append(name)
                    await zk.features.write(Features(1, False, {"f": len(rounds)}), await zk.features.read())

        office.term.points = Operator()
        with pytest.raises(ZooKeeperFailure, match="/feature: BadVersion"):
            office.run(setup_feature_versioning(office.term))
        assert len(rounds) == office.term.settings.conflict_rounds
        assert office.znodes()["/feature"] == FeatureZNode.encode(Features(1, False, {"f": len(rounds)}))


@pytest.mark.spec("FO-1")
def test_waiting_for_an_epoch_ends_with_it_or_says_what_is_missing() -> None:
    async def scene() -> str:
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

    assert asyncio.run(scene()).endswith("at epoch 5, and after 1 ms this broker has read epoch 4")


# ------------------------------------------------------------------ wishes for more


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
def test_why_a_feature_cannot_be_updated(update: FeatureUpdate, why: str) -> None:
    refused = refusal(update)
    assert (refused.error, refused.message) == (Errors.INVALID_REQUEST, why)


def test_updates_are_refused_one_by_one_and_the_znode_stays() -> None:
    with Stage(standing=(0, 1)) as stage:
        stage.start()
        controller, other = stage.member(0), stage.member(1)
        updates = [FeatureUpdate("g", 1, UPGRADE), FeatureUpdate("f", 0, SAFE), FeatureUpdate("g", 0, None)]
        answered = controller.run(controller.controller.update_features(updates))
        assert not isinstance(answered, ApiError)
        assert {feature: why.message.split()[0] for feature, why in answered.items()} == {"g": "Could", "f": "Can"}
        assert controller.run(controller.controller.update_features([])) == {}
        elsewhere = other.run(other.controller.update_features(updates))
        assert isinstance(elsewhere, ApiError)
        assert elsewhere.error is Errors.NOT_CONTROLLER
        assert stage.znodes()["/feature"] == EMPTY


# ------------------------------------------------------------------ brokers that cannot live with it


def finalize(office: Office, **levels: int) -> None:
    """As if somebody had written them into `/feature` by hand and this broker could live with them."""
    office.term.features.update(FinalizedFeatures(levels, 1))


def support(office: Office, broker: int, *features: SupportedFeature) -> None:
    """Rewrite a registration: the same life, with other features."""
    path = BrokerIdZNode.path(broker)
    fields = json.loads(office.znodes()[path] or b"")
    fields["features"] = {f.name: {"min_version": f.min_version, "max_version": f.max_version} for f in features}
    office.operator.run(office.operator.client.write(SetData(path, json.dumps(fields).encode())))


def live(office: Office) -> tuple[BrokerId, ...]:
    return office.term.context.live_or_shutting_down_broker_ids


def change(office: Office) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """What the controller makes of the brokers as they are now: new, dead, bounced."""
    office.forget()
    office.run(process_broker_change(office.term))
    return [(record.new, record.dead, record.bounced) for record in office.controller.records(BrokersChanged)]


@pytest.mark.spec("FO-5", "BR-8")
def test_a_takeover_leaves_out_who_cannot_work_with_what_is_finalized() -> None:
    with Office() as office:
        finalize(office, f=2)
        support(office, 0, SupportedFeature("f", 1, 2))
        support(office, 1, SupportedFeature("f", 1, 1))
        office.term.context.remove_live_brokers(live(office))
        office.term.channels.shutdown()
        office.run(initialize_controller_context(office.term))
        assert live(office) == (0,)


@pytest.mark.spec("BR-8", "BR-11", "BUG-22")
def test_a_broker_that_comes_and_cannot_is_as_good_as_not_there_however_often_others_change() -> None:
    with Office({"orders": {0: [1, 2]}}) as office:
        finalize(office, f=2)
        office.member(1).crash()
        assert change(office) == [((), (1,), ())]
        office.member(1).start()
        assert change(office) == [], "in Kafka it is new"
        assert change(office) == [], "and new again (BUG-22)"
        assert live(office) == (0, 2), "those that were there before it was finalized stay"
        assert office.member(1).told() == []
        support(office, 1, SupportedFeature("f", 1, 5))
        assert change(office) == [((1,), (), ())]
        assert live(office) == (0, 1, 2)


@pytest.mark.spec("BR-8", "BR-9")
def test_a_broker_whose_next_life_cannot_work_with_it_is_dead() -> None:
    with Office() as office:
        finalize(office, f=2)
        office.member(2).crash()
        office.member(2).start()
        assert change(office) == [((), (2,), ())]
        assert live(office) == (0, 1)


@pytest.mark.spec("BR-16")
def test_new_features_of_a_broker_are_passed_on_as_new_addresses_are() -> None:
    with Office() as office:
        office.forget()
        support(office, 1, SupportedFeature("f", 1, 5))
        office.run(process_broker_modifications(office.term, BrokerId(1)))
        office.settle()
        assert office.member(2).told() == ["UMR E1  live [0, 1, 2]"]
        known = office.term.context.broker(BrokerId(1))
        assert known is not None
        assert known.features == (SupportedFeature("f", 1, 5),)
        office.run(process_broker_modifications(office.term, BrokerId(1)))
        office.settle()
        assert len(office.member(2).told()) == 1, "nothing has changed since"


@pytest.mark.spec("BUG-23", "BR-16")
def test_a_broker_that_has_moved_is_spoken_to_at_its_old_address_until_it_bounces() -> None:
    with Office() as office:
        path = BrokerIdZNode.path(1)
        moved = (office.znodes()[path] or b"").replace(b"//broker-1:", b"//nowhere:")
        office.operator.run(office.operator.client.write(SetData(path, moved)))
        office.forget()
        office.run(process_broker_modifications(office.term, BrokerId(1)))
        office.settle()
        assert [len(office.member(broker).heard) for broker in (1, 2)] == [1, 1]
        known = office.term.context.broker(BrokerId(1))
        assert known is not None
        assert [endpoint.host for endpoint in known.endpoints] == ["nowhere"], "and everybody else is told so"
