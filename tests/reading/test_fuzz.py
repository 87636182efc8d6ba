"""Broken files by the hundred; `python -m benchmarks fuzz` reads them by the thousand."""

from __future__ import annotations

from benchmarks import fuzz, sample_files

COUNT = 300


async def test_no_broken_file_does_harm() -> None:
    """Each ends in pages or in a typed error; our process is alive and has no more memory."""
    cases = fuzz.broken(sample_files.all_kinds(), seed=3, numbers=range(COUNT))
    report = await fuzz.run(cases)

    assert report.counts.total() == COUNT
    assert report.unexpected == []
    assert set(report.counts) >= {"read", "DamagedFile"}
    assert report.memory_after < 1.2 * report.memory_before


async def test_the_seeds_themselves_are_read() -> None:
    """What the fuzzer breaks is whole: all but the locked one can be read."""
    report = await fuzz.run(iter(sample_files.all_kinds().items()))
    assert report.counts == {"read": len(sample_files.all_kinds()) - 1, "EncryptedFile": 1}
    assert report.slowest["EncryptedFile"].name == "locked.pdf"
