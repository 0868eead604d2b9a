"""ZooKeeper's nodes, versions and transactions. Each case runs against both subjects.

Sessions and watches are in `test_sessions.py` and `test_watches.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.contracts.subject import Ensemble, contract, data_of, names_below, stat_of
from understudy.foundation.zk.client import (
    MATCH_ANY_VERSION,
    MAX_REQUEST_BYTES,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    SetData,
    Stat,
    Updated,
    ZNodeData,
)

# ------------------------------------------------------------------ one node


@contract
async def test_a_created_node_is_read_back_with_its_stat(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    assert await zk.write(Create("/a", b"data")) == Created("/a")
    node = await zk.get("/a")
    assert isinstance(node, ZNodeData)
    assert node.data == b"data"
    czxid, ctime_ms = node.stat.czxid, node.stat.ctime_ms
    assert node.stat == Stat(
        czxid=czxid, mzxid=czxid, version=0, data_length=4, ctime_ms=ctime_ms, mtime_ms=ctime_ms, pzxid=czxid
    )
    assert await zk.exists("/a") == node.stat


@contract
async def test_null_data_is_distinguished_from_empty_data(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/null"))
    await zk.write(Create("/empty", b""))
    nodes = [await zk.get("/null"), await zk.get("/empty"), *await zk.get_many(["/null", "/empty"])]
    assert [(node.data, node.is_null) for node in nodes if isinstance(node, ZNodeData)] == [
        (b"", True),
        (b"", False),
        (b"", True),
        (b"", False),
    ]


@contract
async def test_a_child_changes_the_pzxid_of_its_parent(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    created = await stat_of(zk, "/a")
    await zk.write(Create("/a/b"))
    child = await stat_of(zk, "/a/b")
    parent = await stat_of(zk, "/a")
    assert (created.pzxid, parent.pzxid, parent.mzxid) == (created.czxid, child.czxid, created.czxid)
    await zk.write(Delete("/a/b"))
    assert (await stat_of(zk, "/a")).pzxid > child.czxid


@contract
async def test_the_time_of_creation_is_the_servers_and_does_not_change(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/first", b""))
    created_ms = (await stat_of(zk, "/first")).ctime_ms
    await asyncio.sleep(0.05)
    await zk.write(SetData("/first", b"later"))
    await zk.write(Create("/second", b""))
    first = await stat_of(zk, "/first")
    assert first.ctime_ms == created_ms
    later_ms = (await stat_of(zk, "/second")).ctime_ms - created_ms
    assert 40 <= later_ms < 20_000
    assert created_ms < first.mtime_ms <= created_ms + later_ms


@contract
async def test_null_and_empty_data_both_read_as_empty(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/null", None))
    await zk.write(Create("/empty", b""))
    assert await data_of(zk, "/null") == await data_of(zk, "/empty") == b""
    assert (await stat_of(zk, "/null")).data_length == 0


@contract
async def test_data_and_paths_are_unicode(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    data = '{"rack":"Zürich ✓ 𝔘"}'.encode()
    assert await zk.write(Create("/größe-✓", data)) == Created("/größe-✓")
    assert await data_of(zk, "/größe-✓") == data
    assert "größe-✓" in await names_below(zk, "/")


@contract
async def test_binary_data_is_kept_as_it_is(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    data = bytes(range(256)) * 4
    await zk.write(Create("/a", data))
    assert await data_of(zk, "/a") == data


@contract
async def test_creating_an_existing_node_answers_node_exists(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"first"))
    assert await zk.write(Create("/a", b"second")) is Failure.NODE_EXISTS
    assert await data_of(zk, "/a") == b"first"


@contract
async def test_creating_a_node_without_parent_answers_no_node(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    assert await zk.write(Create("/a/b")) is Failure.NO_NODE
    assert await zk.exists("/a") is Failure.NO_NODE


@contract
async def test_a_malformed_path_is_refused(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    for path in ("/a/", "/a/\0b"):
        assert await zk.write(Create(path)) is Failure.BAD_ARGUMENTS, path
    assert await names_below(zk, "/a") == ()


@contract
async def test_every_operation_on_an_absent_node_answers_no_node(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    assert await zk.get("/a") is Failure.NO_NODE
    assert await zk.exists("/a") is Failure.NO_NODE
    assert await zk.children("/a") is Failure.NO_NODE
    assert await zk.write(SetData("/a", b"")) is Failure.NO_NODE
    assert await zk.write(SetData("/a", b"", 3)) is Failure.NO_NODE
    assert await zk.write(Delete("/a")) is Failure.NO_NODE
    assert await zk.multi([Check("/a", 0)]) == MultiFailed(0, Failure.NO_NODE)


# ------------------------------------------------------------------ versions and zxids


@pytest.mark.spec("ZC-7")
@contract
async def test_each_set_increments_the_version(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"0"))
    created = await stat_of(zk, "/a")
    for version in range(3):
        updated = await zk.write(SetData("/a", b"next", version))
        assert isinstance(updated, Updated)
        assert updated.stat.version == version + 1
        assert updated.stat == await stat_of(zk, "/a")
        assert updated.stat.czxid == created.czxid
    assert (await stat_of(zk, "/a")).mzxid > created.mzxid


@contract
async def test_a_set_at_another_version_answers_bad_version(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"0"))
    await zk.write(SetData("/a", b"1", 0))
    before = await zk.get("/a")
    for version in (0, 2):
        assert await zk.write(SetData("/a", b"lost", version)) is Failure.BAD_VERSION
    assert await zk.get("/a") == before


@contract
async def test_a_set_of_the_same_data_increments_the_version(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"same"))
    before = await stat_of(zk, "/a")
    await zk.write(SetData("/a", b"same"))
    after = await stat_of(zk, "/a")
    assert (after.version, after.mzxid > before.mzxid) == (1, True)


@pytest.mark.spec("ZC-7")
@contract
async def test_version_minus_one_matches_any_version(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    await zk.write(SetData("/a", b"1", 0))
    updated = await zk.write(SetData("/a", b"2", MATCH_ANY_VERSION))
    assert isinstance(updated, Updated)
    assert updated.stat.version == 2
    assert await zk.write(Delete("/a", MATCH_ANY_VERSION)) == Deleted()


@contract
async def test_a_delete_at_another_version_answers_bad_version(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    assert await zk.write(Delete("/a", 1)) is Failure.BAD_VERSION
    assert await zk.write(Delete("/a", 0)) == Deleted()
    assert await zk.exists("/a") is Failure.NO_NODE


@contract
async def test_deleting_a_node_with_children_answers_not_empty(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    await zk.write(Create("/a/b"))
    assert await zk.write(Delete("/a")) is Failure.NOT_EMPTY
    await zk.write(Delete("/a/b"))
    assert await zk.write(Delete("/a")) == Deleted()


@contract
async def test_a_node_created_again_has_a_new_czxid(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    await zk.write(SetData("/a", b"1"))
    first = await stat_of(zk, "/a")
    await zk.write(Delete("/a"))
    await zk.write(Create("/a"))
    second = await stat_of(zk, "/a")
    assert second.version == 0
    assert second.czxid > first.mzxid


@pytest.mark.spec("Z1", "ZC-7")
@contract
async def test_zxids_increase_over_all_sessions(ensemble: Ensemble) -> None:
    sessions = [await ensemble.open(), await ensemble.open()]
    zxids = []
    for number in range(6):
        zk = sessions[number % 2].zk
        await zk.write(Create(f"/a{number}"))
        zxids.append((await stat_of(zk, f"/a{number}")).czxid)
    assert zxids == sorted(set(zxids))


@contract
async def test_last_zxid_is_at_least_that_of_every_write_and_read(ensemble: Ensemble) -> None:
    reader, writer = (await ensemble.open()).zk, (await ensemble.open()).zk
    await writer.write(Create("/a"))
    created = await stat_of(writer, "/a")
    assert writer.last_zxid >= created.czxid
    assert (await stat_of(reader, "/a")) == created
    assert reader.last_zxid >= created.czxid


# ------------------------------------------------------------------ children


@contract
async def test_children_are_sorted_names(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    for name in ("c", "10", "b", "2"):
        await zk.write(Create(f"/a/{name}"))
    await zk.write(Create("/a/b/deep"))
    assert await names_below(zk, "/a") == ("10", "2", "b", "c")
    assert await names_below(zk, "/a/c") == ()


@contract
async def test_a_parent_counts_its_children_and_their_changes(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"x"))
    before = await stat_of(zk, "/a")
    await zk.write(Create("/a/b"))
    await zk.write(Create("/a/c"))
    await zk.write(Delete("/a/b"))
    children = await zk.children("/a")
    assert isinstance(children, Children)
    assert (children.stat.num_children, children.stat.cversion) == (1, 3)
    assert (children.stat.version, children.stat.mzxid) == (before.version, before.mzxid)


# ------------------------------------------------------------------ sequential names


@contract
async def test_sequential_names_increase_and_are_never_reused(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    assert await zk.write(Create("/a/change_", b"", sequential=True)) == Created("/a/change_0000000000")
    assert await zk.write(Create("/a/change_", b"", sequential=True)) == Created("/a/change_0000000001")
    await zk.write(Delete("/a/change_0000000001"))
    third = await zk.write(Create("/a/change_", b"", sequential=True))
    assert isinstance(third, Created)
    assert third.path > "/a/change_0000000001"


@contract
async def test_sequential_names_are_numbered_per_parent(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    for parent in ("/a", "/b"):
        await zk.write(Create(parent))
        assert await zk.write(Create(f"{parent}/x_", sequential=True)) == Created(f"{parent}/x_0000000000")


@contract
async def test_a_node_can_be_sequential_and_ephemeral(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    created = await zk.write(Create("/x_", ephemeral=True, sequential=True))
    assert isinstance(created, Created)
    assert (await stat_of(zk, created.path)).ephemeral_owner == zk.session_id


# ------------------------------------------------------------------ transactions


@pytest.mark.spec("ZC-7")
@contract
async def test_a_transaction_has_a_result_per_operation_and_one_zxid(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/old"))
    await zk.write(Create("/gone"))
    outcome = await zk.multi([Check("/old", 0), Create("/new", b"x"), SetData("/old", b"y", 0), Delete("/gone", 0)])
    assert isinstance(outcome, MultiOk)
    old, new = await stat_of(zk, "/old"), await stat_of(zk, "/new")
    assert outcome.results == (Checked(), Created("/new"), Updated(old), Deleted())
    assert outcome.zxid == new.czxid == new.mzxid == old.mzxid
    assert await zk.exists("/gone") is Failure.NO_NODE


@pytest.mark.spec("ZC-7")
@contract
async def test_a_transaction_is_all_or_nothing(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"0"))
    before = await zk.get("/a")
    outcome = await zk.multi([Create("/a/b"), SetData("/a", b"1"), Delete("/missing"), Create("/a/c")])
    assert outcome == MultiFailed(2, Failure.NO_NODE)
    assert await zk.get("/a") == before
    assert await names_below(zk, "/a") == ()


@contract
async def test_a_transaction_names_the_first_failure(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    assert await zk.multi([Create("/b"), Create("/a"), Delete("/missing")]) == MultiFailed(1, Failure.NODE_EXISTS)
    assert await zk.multi([Delete("/missing"), Create("/a")]) == MultiFailed(0, Failure.NO_NODE)


@contract
async def test_every_kind_of_failure_in_a_transaction(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    await zk.write(Create("/a/b"))
    await zk.write(Create("/mortal", ephemeral=True))
    refusals: list[tuple[Op, Failure]] = [
        (Create("/a"), Failure.NODE_EXISTS),
        (Create("/x/y"), Failure.NO_NODE),
        (Create("/mortal/child"), Failure.NO_CHILDREN_FOR_EPHEMERALS),
        (SetData("/a", b"", 7), Failure.BAD_VERSION),
        (Delete("/a"), Failure.NOT_EMPTY),
        (Delete("/a/b", 7), Failure.BAD_VERSION),
        (Check("/a", 7), Failure.BAD_VERSION),
        (Check("/x", 0), Failure.NO_NODE),
    ]
    for op, failure in refusals:
        assert await zk.multi([Create("/a/before"), op, Create("/a/after")]) == MultiFailed(1, failure), op
    assert await names_below(zk, "/a") == ("b",)


@pytest.mark.spec("BR-3")
@contract
async def test_operations_of_a_transaction_see_the_effects_of_earlier_ones(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    outcome = await zk.multi([Create("/a", None, ephemeral=True), SetData("/a", b"set", 0)])
    assert isinstance(outcome, MultiOk)
    updated = outcome.results[1]
    assert isinstance(updated, Updated)
    assert (updated.stat.version, updated.stat.czxid, updated.stat.mzxid) == (1, outcome.zxid, outcome.zxid)
    assert updated.stat.ephemeral_owner == zk.session_id
    assert await zk.multi([Create("/p"), Create("/p/q"), Create("/p/q/r")]) != MultiFailed(1, Failure.NO_NODE)
    assert await names_below(zk, "/p/q") == ("r",)


@contract
async def test_a_transaction_may_delete_and_create_a_node(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"first"))
    first = await stat_of(zk, "/a")
    assert isinstance(await zk.multi([Delete("/a"), Create("/a", b"second")]), MultiOk)
    second = await stat_of(zk, "/a")
    assert (await data_of(zk, "/a"), second.version) == (b"second", 0)
    assert second.czxid > first.czxid


@contract
async def test_a_transaction_may_create_sequential_nodes(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    outcome = await zk.multi([Create("/a/x_", sequential=True), Create("/a/x_", sequential=True)])
    assert isinstance(outcome, MultiOk)
    assert outcome.results == (Created("/a/x_0000000000"), Created("/a/x_0000000001"))


@contract
async def test_a_large_batch_with_one_conflict_fails_at_it(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/epoch"))
    assert isinstance(await zk.multi([Create(f"/s{number:03}") for number in range(300)]), MultiOk)
    await zk.write(SetData("/s123", b"elsewhere", 0))
    batch: list[Op] = [Check("/epoch", 0), *[SetData(f"/s{number:03}", b"x", 0) for number in range(300)]]
    assert await zk.multi(batch) == MultiFailed(124, Failure.BAD_VERSION)
    assert {(await stat_of(zk, path)).version for path in ("/s000", "/s122", "/s124", "/s299")} == {0}
    del batch[124]
    assert isinstance(await zk.multi(batch), MultiOk)


@contract
async def test_a_check_changes_nothing(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"x"))
    before = await zk.get("/a")
    assert isinstance(await zk.multi([Check("/a", 0), Create("/b")]), MultiOk)
    assert await zk.get("/a") == before


@contract
async def test_of_many_conditional_sets_exactly_one_wins(ensemble: Ensemble) -> None:
    contenders = [(await ensemble.open()).zk for _ in range(3)]
    await contenders[0].write(Create("/a", b"0"))
    answers = await asyncio.gather(*[zk.write(SetData("/a", b"mine", 0)) for zk in contenders])
    assert sum(isinstance(answer, Updated) for answer in answers) == 1
    assert answers.count(Failure.BAD_VERSION) == 2


@pytest.mark.spec("Z1", "ZC-1")
@contract
async def test_requests_of_a_session_take_effect_in_the_order_they_were_sent(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    answers = await asyncio.gather(*[zk.write(SetData("/a", b"%d" % number)) for number in range(100)])
    assert [answer.stat.version for answer in answers if isinstance(answer, Updated)] == list(range(1, 101))
    assert await data_of(zk, "/a") == b"99"


# ------------------------------------------------------------------ bulk and size


@contract
async def test_get_many_answers_in_order_with_no_node_for_absent_nodes(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a"))
    for start in range(0, 2_500, 500):
        await zk.multi([Create(f"/a/{number}", b"%d" % number) for number in range(start, start + 500)])
    await zk.multi([Delete(f"/a/{number}") for number in range(0, 2_500, 50)])
    found = await zk.get_many([f"/a/{number}" for number in range(2_500)])
    assert [node.data if isinstance(node, ZNodeData) else node for node in found] == [
        b"%d" % number if number % 50 else Failure.NO_NODE for number in range(2_500)
    ]


@contract
async def test_get_many_and_get_give_the_same_answers(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    await zk.write(Create("/a", b"x"))
    await zk.write(Create("/b", None))
    await zk.write(SetData("/b", b"y"))
    assert await zk.get_many(["/b", "/none", "/a", "/b"]) == [
        await zk.get(path) for path in ("/b", "/none", "/a", "/b")
    ]
    assert await zk.get_many([]) == []


@contract
async def test_get_many_reads_more_than_fits_one_response(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    large = b"x" * 100_000
    for number in range(25):
        await zk.write(Create(f"/{number}", large))
    found = await zk.get_many([f"/{number}" for number in range(25)])
    assert [node.data == large for node in found if isinstance(node, ZNodeData)] == [True] * 25


@contract
async def test_a_node_of_the_maximum_size_is_written_and_read(ensemble: Ensemble) -> None:
    zk = (await ensemble.open()).zk
    large = b"x" * (MAX_REQUEST_BYTES - 1_000)
    assert await zk.write(Create("/a", large)) == Created("/a")
    assert await data_of(zk, "/a") == large


@contract
async def test_a_too_large_request_is_refused_and_the_connection_stays_usable(ensemble: Ensemble) -> None:
    session = await ensemble.open()
    zk = session.zk
    await zk.write(Create("/a"))
    too_large = b"x" * (MAX_REQUEST_BYTES + 1)
    assert await zk.write(Create("/b", too_large)) is Failure.TOO_LARGE
    assert await zk.write(SetData("/a", too_large)) is Failure.TOO_LARGE
    half = SetData("/a", too_large[: MAX_REQUEST_BYTES // 2 + 1])
    assert await zk.multi([half, half]) is Failure.TOO_LARGE
    assert (await stat_of(zk, "/a")).version == 0
    assert session.notifications == []


# ------------------------------------------------------------------ chroot


@pytest.mark.spec("ZN-1")
@contract
async def test_a_missing_chroot_is_created_and_paths_are_relative_to_it(ensemble: Ensemble) -> None:
    inside, outside = (await ensemble.open(chroot="/apps/kafka")).zk, (await ensemble.open()).zk
    assert await names_below(inside, "/") == ()
    assert await inside.write(Create("/a", b"x")) == Created("/a")
    assert await inside.write(Create("/seq_", sequential=True)) == Created("/seq_0000000001")
    assert await data_of(outside, "/apps/kafka/a") == b"x"
    outcome = await inside.multi([Check("/a", 0), Create("/b"), Create("/seq_", sequential=True)])
    assert isinstance(outcome, MultiOk)
    assert outcome.results == (Checked(), Created("/b"), Created("/seq_0000000003"))
    assert await names_below(inside, "/") == ("a", "b", "seq_0000000001", "seq_0000000003")
    found = await inside.get_many(["/a", "/b", "/apps"])
    assert [isinstance(node, ZNodeData) for node in found] == [True, True, False]


@contract
async def test_an_existing_chroot_is_used_as_it_is(ensemble: Ensemble) -> None:
    first = (await ensemble.open(chroot="/app")).zk
    await first.write(Create("/a"))
    second = (await ensemble.open(chroot="/app")).zk
    assert await names_below(second, "/") == ("a",)
