"""Room on a machine: taken before a document is begun, and given back whatever happens."""

from __future__ import annotations

import contextlib

import pytest

from pagewarden import errors
from pagewarden.pool import capacity, plans
from pagewarden.settings import Settings


def test_a_machine_carries_no_more_than_it_can() -> None:
    """Four CPUs carry two index documents and one acte, and then room comes back."""
    freed: list[int] = []
    room = capacity.Capacity(4, 100_000, freed=lambda: freed.append(1))
    with contextlib.ExitStack() as running:
        for lane in ("index", "index", "acte"):
            place = running.enter_context(room.for_one_of([lane]))
            assert place.lanes == [lane]
            place.settle(lane)
        assert running.enter_context(room.for_one_of(["acte"])).lanes == []
    assert len(freed) == 6  # when it is known how much is needed, and when it is over
    with room.for_one_of(["index"]) as place:
        assert place.lanes == ["index"]


def test_room_is_kept_for_the_dearest_until_the_lane_is_known() -> None:
    """Then only what the document needs, and lanes that do not fit are left out."""
    room = capacity.Capacity(2.5, 100_000)
    with room.for_one_of(["acte", "index"]) as first:
        with room.for_one_of(["acte", "index"]) as second:
            assert second.lanes == ["acte"]
        first.settle("acte")
        with room.for_one_of(["acte", "index"]) as third:
            assert third.lanes == ["acte", "index"]


def test_who_found_no_document_rings_nobody() -> None:
    """Otherwise a pool without work would wake itself for ever."""
    freed: list[int] = []
    room = capacity.Capacity(4, 100_000, freed=lambda: freed.append(1))
    with room.for_one_of(["index"]):
        pass
    assert freed == []


def test_room_is_left_for_a_lane_that_is_short() -> None:
    """Of three CPUs one is free: an acte would fit, but then the index document never would."""
    room = capacity.Capacity(3, 100_000)
    with room.for_one_of(["acte"]), room.for_one_of(["acte"]):
        with room.for_one_of(["index", "acte"], urgent=["index"]) as third:
            assert third.lanes == []
        with room.for_one_of(["index", "acte"]) as fourth:
            assert fourth.lanes == ["acte"]


def test_memory_counts_like_cpus() -> None:
    """A gigabyte carries one index document, however many CPUs there are."""
    room = capacity.Capacity(64, 1024)
    with room.for_one_of(["index"]), room.for_one_of(["index"]) as second:
        assert second.lanes == []


def test_on_the_smallest_machine_one_document_runs() -> None:
    """Waiting would not make it larger."""
    room = capacity.Capacity(0.5, 100)
    with room.for_one_of(["index"]) as first, room.for_one_of(["acte"]) as second:
        assert (first.lanes, second.lanes) == (["index"], [])


def test_room_is_given_back_after_an_error() -> None:
    """Also when the document fails."""
    room = capacity.Capacity(1, 1024)
    with contextlib.suppress(RuntimeError), room.for_one_of(["acte"]):
        raise RuntimeError
    with room.for_one_of(["acte"]) as place:
        assert place.lanes == ["acte"]


def test_more_workers_than_suit_the_machine_are_warned_of() -> None:
    """They start, and wait for their turn."""
    chosen = Settings(ocr_worker_pool_size=15, server_max_cpu=16, server_max_ram=32)
    plan = plans.make(chosen)
    assert (plan.size, plan.count) == (15, 15)
    assert "more than the 8 that suit 16 CPUs" in plan.warnings[0]
    assert plans.make(Settings(server_max_cpu=16)).size == 8
    assert plans.make(Settings(server_max_cpu=16)).warnings == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"ocr_worker_pool_size": 3, "ocr_min_index_workers": 4}, "need 5 workers"),
        ({"pool_lanes": "index,nope"}, "no lane 'nope'"),
        ({"pool_lanes": " , "}, "at least one lane"),
        ({"pool_lanes": "index=x"}, "no weight"),
        ({"pool_lanes": "index=1/0"}, "no weight"),
        ({"pool_lanes": "index=-1"}, "more than 0"),
    ],
)
def test_plans_that_do_not_fit_are_refused(values: dict[str, object], said: str) -> None:
    """At the start, with what is wrong."""
    with pytest.raises(errors.SettingsError, match=said):
        plans.make(Settings.model_validate(values))


@pytest.mark.parametrize(
    "values",
    [
        {"ocr_worker_pool_size": 0},
        {"ocr_worker_pool_size": -1},
        {"ocr_min_acte_workers": -1},
        {"ocr_rebalance_interval_ms": 0},
        {"server_max_cpu": 0},
        {"server_max_ram": -5},
        {"ocr_worker_count": 100_000},
    ],
)
def test_absurd_settings_are_refused(values: dict[str, object]) -> None:
    """By the settings themselves."""
    with pytest.raises(ValueError, match="validation error"):
        Settings.model_validate(values)


def test_fewer_workers_than_minimums_serve_the_first_lanes() -> None:
    """When programs have died, whoever is left does not all stand in one place for nothing."""
    plan = plans.make(Settings(ocr_worker_pool_size=8, ocr_min_index_workers=2, server_max_cpu=16))
    assert plan.allocate({"index": 0, "acte": 50}, 1) == {"index": 1, "acte": 0}
    assert plan.allocate({"index": 0, "acte": 50}, 4) == {"index": 2, "acte": 2}


def test_every_lane_has_somebody_as_far_as_the_pool_goes() -> None:
    """Also lanes that have no setting of their own; with too few workers those go without."""
    lanes = "index,acte,image,pdf"
    assert plans.make(Settings(pool_lanes=lanes, ocr_worker_pool_size=8)).minimums == {
        "index": 1, "acte": 1, "image": 1, "pdf": 1,
    }  # fmt: skip
    assert plans.make(Settings(pool_lanes=lanes, ocr_worker_pool_size=3)).minimums == {
        "index": 1, "acte": 1, "image": 1, "pdf": 0,
    }  # fmt: skip
