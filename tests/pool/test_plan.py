"""The plan of a pool is built from settings; inconsistent settings are refused."""

from __future__ import annotations

import pytest

from pagewarden import errors
from pagewarden.documents.lanes import LANES
from pagewarden.pool import capacity
from pagewarden.pool.plan import PoolPlan
from pagewarden.settings import Settings


def _make_plan(lanes: str | None = None, **values: object) -> PoolPlan:
    defaults = {"server_max_cpu": 16, "server_max_ram": 32}
    return PoolPlan.from_settings(Settings.model_validate(defaults | values), lanes=lanes)


def test_default_pool_serves_all_lanes_with_a_worker_per_core() -> None:
    """As far as memory allows; at least one."""
    assert _make_plan().lanes == list(LANES)
    for cpu, gigabytes, size in ((16, 32, 16), (2, 8, 2), (16, 2, 4), (1, 1, 1), (0.5, 0.2, 1)):
        plan = _make_plan(server_max_cpu=cpu, server_max_ram=gigabytes)
        assert (plan.size, plan.local_size, plan.processes, plan.warnings) == (size, size, size, [])


def test_more_workers_than_the_machine_can_use_cause_a_warning() -> None:
    """They start, and wait for capacity."""
    plan = _make_plan(ocr_worker_pool_size=15, server_max_ram=4)
    assert (plan.size, plan.local_size, plan.processes) == (15, 15, 8)
    assert plan.warnings == [
        "16 CPUs and 4,096 MB suffice for 8 of 15 workers; the others will wait for capacity"
    ]
    assert _make_plan(ocr_worker_pool_size=15, ocr_worker_count=2).processes == 2


@pytest.mark.parametrize(
    ("index", "acte", "expected"),
    [(50, 5, (13, 2)), (3, 80, (1, 14)), (25, 25, (7, 8)), (2, 3, (6, 9)), (80, 20, (12, 3)),
     (20, 80, (3, 12)), (0, 80, (1, 14))],
)  # fmt: skip
def test_registry_gets_the_whole_default_pool_while_it_alone_has_work(
    index: int, acte: int, expected: tuple[int, int]
) -> None:
    """Fifteen workers: morning rush, afternoon, balance; the other three lanes are empty."""
    plan = _make_plan(ocr_worker_pool_size=15)
    backlog = dict.fromkeys(plan.lanes, 0) | {"index": index, "acte": acte}
    allocated = plan.allocate(backlog, 15)
    assert (allocated["index"], allocated["acte"]) == expected
    assert sum(allocated.values()) == 15


def test_empty_registry_shares_its_own_pool_evenly_and_takes_no_worker_of_others() -> None:
    """Where the pool serves only these two lanes, it is 7 and 8."""
    plan = _make_plan(lanes="index,acte", ocr_worker_pool_size=15)
    assert plan.allocate({"index": 0, "acte": 0}, 15) == {"index": 7, "acte": 8}
    plan = _make_plan(ocr_worker_pool_size=15)
    allocated = plan.allocate(dict.fromkeys(plan.lanes, 0) | {"image": 2, "pdf": 1}, 15)
    assert allocated == {"image": 10, "check": 0, "pdf": 5, "index": 0, "acte": 0}


def test_each_lane_with_work_has_a_worker_if_the_pool_is_large_enough() -> None:
    """However small its share; in a small pool the configured minimums come first."""
    plan = _make_plan()
    backlog = dict.fromkeys(plan.lanes, 0) | {"image": 1, "pdf": 1, "acte": 10_000}
    assert plan.allocate(backlog, 8) == {"image": 1, "check": 0, "pdf": 1, "index": 1, "acte": 5}
    assert plan.allocate(backlog, 3) == {"image": 1, "check": 0, "pdf": 0, "index": 1, "acte": 1}
    assert plan.allocate(backlog, 1) == {"image": 0, "check": 0, "pdf": 0, "index": 1, "acte": 0}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ocr_worker_pool_size": 3, "ocr_min_index_workers": 4}, "need 5 workers"),
        ({"ocr_worker_pool_size": 1, "ocr_min_acte_workers": 1}, "but the pool has 1"),
        ({"pool_lanes": "index,nope"}, "unknown lane 'nope'"),
        ({"pool_lanes": " , "}, "at least one lane"),
        ({"pool_lanes": "index=x"}, "'x' is not a valid weight"),
        ({"pool_lanes": "index=1/0"}, "'1/0' is not a valid weight"),
        ({"pool_lanes": "index=-1"}, "greater than 0"),
    ],
)
def test_inconsistent_settings_are_refused(values: dict[str, object], message: str) -> None:
    """The error names the problem."""
    with pytest.raises(errors.SettingsError, match=message):
        PoolPlan.from_settings(Settings.model_validate(values))


def test_default_minimums_give_way_on_the_smallest_machine() -> None:
    """One core and 1 GB: one worker, and the lanes take turns."""
    plan = _make_plan(server_max_cpu=1, server_max_ram=1)
    assert plan.get_minimums({"index": 1, "acte": 1}, plan.size) == {"index": 1, "acte": 0}
    assert plan.limit == capacity.ResourceCost(1, 1024)


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
def test_settings_out_of_range_are_refused(values: dict[str, object]) -> None:
    """The validation of the settings refuses them."""
    with pytest.raises(ValueError, match="validation error"):
        Settings.model_validate(values)
