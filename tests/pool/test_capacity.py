"""Capacity of a machine is reserved before a claim, shared by its programs, and always released."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.pool import capacity

if TYPE_CHECKING:
    from pathlib import Path


def _make_machine(
    cpu: float, megabytes: float, usage: capacity.MachineUsage | None = None
) -> capacity.Capacity:
    return capacity.Capacity(capacity.ResourceCost(cpu, megabytes), usage)


def test_documents_start_while_a_cpu_is_free() -> None:
    """Four CPUs are enough for two index documents and one acte; then capacity is released."""
    releases: list[int] = []
    machine = _make_machine(4, 100_000)
    machine.on_release = lambda: releases.append(1)
    with contextlib.ExitStack() as running:
        for lane in ("index", "index", "acte"):
            reservation = running.enter_context(machine.reserve([lane]))
            assert reservation.lanes == [lane]
            reservation.confirm(lane)
        assert running.enter_context(machine.reserve(["acte"])).lanes == []
    assert len(releases) == 6  # each document releases capacity after its claim, and at its end
    with machine.reserve(["index"]) as reservation:
        assert reservation.lanes == ["index"]


def test_lane_that_wants_more_than_one_cpu_blocks_no_other() -> None:
    """On two cores, an index document runs beside an acte, in any order."""
    for first, second in (("index", "acte"), ("acte", "index"), ("index", "index")):
        machine = _make_machine(2, 100_000)
        with machine.reserve([first]), machine.reserve([second], urgent=[second]) as reservation:
            assert reservation.lanes == [second]


def test_reservation_covers_the_largest_lane_until_the_claim() -> None:
    """Then only what the document needs; lanes that do not fit are left out."""
    machine = _make_machine(64, 1300)
    with machine.reserve(["acte", "index"]) as first:
        with machine.reserve(["acte", "index"]) as second:
            assert second.lanes == ["acte"]
        first.confirm("acte")
        with machine.reserve(["acte", "index"]) as third:
            assert third.lanes == ["acte", "index"]


def test_claim_without_document_notifies_no_worker() -> None:
    """Otherwise an idle pool would wake itself forever."""
    releases: list[int] = []
    machine = _make_machine(4, 100_000)
    machine.on_release = lambda: releases.append(1)
    with machine.reserve(["index"]):
        pass
    assert releases == []


def test_memory_is_kept_for_an_urgent_lane() -> None:
    """An acte would fit, but then the index document never would; it can replace an acte."""
    machine = _make_machine(64, 1600)
    with machine.reserve(["acte"]) as first, machine.reserve(["acte"]):
        with machine.reserve(["index", "acte"], urgent=["index"]) as third:
            assert third.lanes == []
        with machine.reserve(["index", "acte"]) as fourth:
            assert fourth.lanes == ["acte"]
        assert machine.list_fitting(["index"], first) == ["index"]


def test_smallest_machine_reads_one_document() -> None:
    """Even if it has less than a document needs; another document can replace it."""
    machine = _make_machine(0.5, 100)
    with machine.reserve(["index"]) as first, machine.reserve(["acte"]) as second:
        assert (first.lanes, second.lanes) == (["index"], [])
        assert machine.list_fitting(["pdf"], first) == ["pdf"]


def test_capacity_is_released_after_an_error() -> None:
    """When processing fails."""
    machine = _make_machine(1, 1024)
    with contextlib.suppress(RuntimeError), machine.reserve(["acte"]):
        raise RuntimeError
    with machine.reserve(["acte"]) as reservation:
        assert reservation.lanes == ["acte"]


def test_programs_share_the_machine(tmp_path: Path) -> None:
    """Of two CPUs, each of two programs gets one; all of them when the other one has ended."""
    with (
        capacity.open_machine_usage(tmp_path / "usage") as a,
        capacity.open_machine_usage(tmp_path / "usage") as b,
    ):
        first, second = _make_machine(2, 4096, a), _make_machine(2, 4096, b)
        with first.reserve(["acte"]), second.reserve(["acte"]) as theirs:
            assert theirs.lanes == ["acte"]
            with first.reserve(["acte"]) as refused, second.reserve(["acte"]) as too:
                assert (refused.lanes, too.lanes) == ([], [])
        b.close()
        with first.reserve(["acte"]), first.reserve(["acte"]) as reservation:
            assert reservation.lanes == ["acte"]
    assert list((tmp_path / "usage").iterdir()) == []


def test_dead_and_suspended_programs_hold_nothing(tmp_path: Path) -> None:
    """A killed program leaves its file; a suspended one no longer updates it."""
    with capacity.open_machine_usage(tmp_path) as usage:
        with subprocess.Popen([sys.executable, "-c", ""]) as ended:
            pass
        host = socket.gethostname()
        (tmp_path / f"{host}-{ended.pid}-1").write_text("2 2000")
        for name in (f"{host}-{os.getppid()}-1", f"another-container-{ended.pid}-1"):
            (tmp_path / name).write_text("1 512")
        assert usage.measure_others() == capacity.ResourceCost(2, 1024)
        assert not (tmp_path / f"{host}-{ended.pid}-1").exists()
        for suspended in tmp_path.iterdir():
            os.utime(suspended, (0, 0))
        assert usage.measure_others() == capacity.NO_COST


def test_folder_of_another_account_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files could claim all capacity; ours are private."""
    with capacity.open_machine_usage(tmp_path / "usage"):
        assert stat.S_IMODE((tmp_path / "usage").stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with (
        pytest.raises(errors.SettingsError, match="another account"),
        capacity.open_machine_usage(tmp_path / "usage"),
    ):
        pass


def test_limits_of_a_container_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs and memory of its control group, if they are less than those of the machine."""
    monkeypatch.setattr(capacity, "_CGROUP", tmp_path)
    cpus, megabytes = capacity.count_cpus(), capacity.measure_megabytes()
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("104857600\n")
    assert (capacity.count_cpus(), capacity.measure_megabytes()) == (0.5, 100)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (capacity.count_cpus(), capacity.measure_megabytes()) == (cpus, megabytes)
