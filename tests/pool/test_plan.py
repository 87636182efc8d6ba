"""The plan of a pool is built from settings; inconsistent settings are refused."""

from __future__ import annotations

import pytest

from pagewarden import errors
from pagewarden.pool.plan import PoolPlan
from pagewarden.settings import Settings


def test_more_workers_than_recommended_cause_a_warning() -> None:
    """They start, and wait for capacity."""
    settings = Settings(ocr_worker_pool_size=15, server_max_cpu=16, server_max_ram=32)
    plan = PoolPlan.from_settings(settings)
    assert (plan.size, plan.local_size) == (15, 15)
    assert "exceed the recommended 8 for 16 CPUs" in plan.warnings[0]
    assert PoolPlan.from_settings(Settings(server_max_cpu=16)).size == 8
    assert PoolPlan.from_settings(Settings(server_max_cpu=16)).warnings == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ocr_worker_pool_size": 3, "ocr_min_index_workers": 4}, "need 5 workers"),
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


def test_fewer_workers_than_minimums_serve_the_first_lanes() -> None:
    """After programs have died, the remaining workers still cover the first lanes."""
    plan = PoolPlan.from_settings(
        Settings(ocr_worker_pool_size=8, ocr_min_index_workers=2, server_max_cpu=16)
    )
    assert plan.allocate({"index": 0, "acte": 50}, 1) == {"index": 1, "acte": 0}
    assert plan.allocate({"index": 0, "acte": 50}, 4) == {"index": 2, "acte": 2}


def test_each_lane_has_a_worker_if_the_pool_is_large_enough() -> None:
    """Lanes without a setting too; in a small pool these have none."""
    lanes = "index,acte,image,pdf"
    assert PoolPlan.from_settings(Settings(pool_lanes=lanes, ocr_worker_pool_size=8)).minimums == {
        "index": 1, "acte": 1, "image": 1, "pdf": 1,
    }  # fmt: skip
    assert PoolPlan.from_settings(Settings(pool_lanes=lanes, ocr_worker_pool_size=3)).minimums == {
        "index": 1, "acte": 1, "image": 1, "pdf": 0,
    }  # fmt: skip
