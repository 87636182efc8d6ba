"""The plan of the short chaos test."""

from __future__ import annotations

from benchmarks.chaos import plan

SEED = 576  # its first 20 seconds hit every kind of part, and the database twice
FIRE_SECONDS = 20.0
SHORT = plan.Plan(
    seed=SEED,
    fire_seconds=FIRE_SECONDS,
    gap_seconds=0.6,
    settle_seconds=120.0,
    lock_seconds=5.0,
    heartbeat_seconds=1.0,
    sweep_seconds=1.0,
    gpu_silence_seconds=10.0,
    backoff_seconds=1,
    probe_seconds=1,
    slow_pages=14,
    slow_share=0.05,
    waiting={"image": 8, "pdf": 4, "index": 4, "acte": 4, "check": 4},
    workers={
        "worker-1": ("work", "--lanes", "check,image,pdf", "--processes", "2"),
        "pool": ("work", "--lanes", "index,acte,check,image", "--processes", "4"),
    },
)
"""All times are short, so that a document of a dead worker is claimed again within the test."""
