"""A few hundred broken files; `python -m benchmarks fuzz` reads thousands."""

from __future__ import annotations

from benchmarks import fuzz, sample_files

COUNT = 300


async def test_broken_files_do_no_harm() -> None:
    """Each gives pages or a typed error; our process survives without more memory."""
    cases = fuzz.corrupt(sample_files.make_all_kinds(), seed=3, numbers=range(COUNT))
    report = await fuzz.run(cases)

    assert report.counts.total() == COUNT
    assert report.unexpected == []
    assert set(report.counts) >= {"read", "DamagedFile"}
    assert report.memory_after < 1.2 * report.memory_before


async def test_seed_files_are_read() -> None:
    """The originals are valid: all except the encrypted one can be read."""
    report = await fuzz.run(iter(sample_files.make_all_kinds().items()))
    assert report.counts == {"read": len(sample_files.make_all_kinds()) - 1, "EncryptedFile": 1}
    assert report.slowest["EncryptedFile"].name == "locked.pdf"
