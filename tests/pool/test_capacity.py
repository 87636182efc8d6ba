"""Capacity of a machine is reserved before a claim, and always released."""

from __future__ import annotations

import contextlib

from pagewarden.pool import capacity


def test_documents_are_limited_by_cpus() -> None:
    """Four CPUs are enough for two index documents and one acte; then capacity is released."""
    releases: list[int] = []
    machine = capacity.Capacity(4, 100_000, on_release=lambda: releases.append(1))
    with contextlib.ExitStack() as running:
        for lane in ("index", "index", "acte"):
            reservation = running.enter_context(machine.reserve([lane]))
            assert reservation.lanes == [lane]
            reservation.confirm(lane)
        assert running.enter_context(machine.reserve(["acte"])).lanes == []
    assert len(releases) == 6  # each document releases capacity after its claim, and at its end
    with machine.reserve(["index"]) as reservation:
        assert reservation.lanes == ["index"]


def test_reservation_covers_the_most_expensive_lane_until_the_claim() -> None:
    """Then only what the document needs; lanes that do not fit are left out."""
    machine = capacity.Capacity(2.5, 100_000)
    with machine.reserve(["acte", "index"]) as first:
        with machine.reserve(["acte", "index"]) as second:
            assert second.lanes == ["acte"]
        first.confirm("acte")
        with machine.reserve(["acte", "index"]) as third:
            assert third.lanes == ["acte", "index"]


def test_claim_without_document_notifies_no_worker() -> None:
    """Otherwise an idle pool would wake itself forever."""
    releases: list[int] = []
    machine = capacity.Capacity(4, 100_000, on_release=lambda: releases.append(1))
    with machine.reserve(["index"]):
        pass
    assert releases == []


def test_capacity_is_kept_for_an_urgent_lane() -> None:
    """Of three CPUs one is free: an acte would fit, but then the index document never would."""
    machine = capacity.Capacity(3, 100_000)
    with machine.reserve(["acte"]), machine.reserve(["acte"]):
        with machine.reserve(["index", "acte"], urgent=["index"]) as third:
            assert third.lanes == []
        with machine.reserve(["index", "acte"]) as fourth:
            assert fourth.lanes == ["acte"]


def test_documents_are_limited_by_memory() -> None:
    """One gigabyte is enough for one index document, with any number of CPUs."""
    machine = capacity.Capacity(64, 1024)
    with machine.reserve(["index"]), machine.reserve(["index"]) as second:
        assert second.lanes == []


def test_smallest_machine_reads_one_document() -> None:
    """Even if it has less than a document needs."""
    machine = capacity.Capacity(0.5, 100)
    with machine.reserve(["index"]) as first, machine.reserve(["acte"]) as second:
        assert (first.lanes, second.lanes) == (["index"], [])


def test_capacity_is_released_after_an_error() -> None:
    """When processing fails."""
    machine = capacity.Capacity(1, 1024)
    with contextlib.suppress(RuntimeError), machine.reserve(["acte"]):
        raise RuntimeError
    with machine.reserve(["acte"]) as reservation:
        assert reservation.lanes == ["acte"]
