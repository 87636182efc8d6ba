"""In a simulation the pool is faster than a fixed split in a rush, and never slower."""

from __future__ import annotations

from benchmarks.pool import run


def test_pool_is_faster_than_a_fixed_split() -> None:
    """Never slower, and in rushes, with or without a leader, 1.3 times as fast."""
    rows = run.run_simulation(days=1)
    pool = [row for row in rows if row["policy"] == "pool"]
    simple = {row["scenario"]: row for row in rows if row["policy"] == "simple algorithm"}
    assert len(pool) == 6
    for row in pool:
        assert float(row["drained_ratio"]) >= 1, row
        assert float(row["wait_ratio"]) >= 1, row
        if "rush" in row["scenario"]:
            assert float(row["drained_ratio"]) >= 1.3, row
        assert row["switches_per_hour"] <= simple[row["scenario"]]["switches_per_hour"], row
