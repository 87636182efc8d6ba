"""What people read of an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEGINNINGS = {"fired": "Alert", "resolved": "Over", "test": "Test"}


def subject(body: Mapping[str, Any]) -> str:
    """Say in one line what it is about."""
    return f"{_BEGINNINGS[body['kind']]}: {body['rule']} ({body['severity']})"


def text(body: Mapping[str, Any], site_url: str) -> str:
    """Say what is wrong, since when, and what to do."""
    if body["kind"] == "test":
        lines = ["This is a test. Were it none, it would say what is wrong, and what to do:"]
    else:
        lines = [_measured(body)]
    if body["kind"] != "resolved":
        lines += [body["detail"] or "", body["advice"]]
    lines.append(f"{site_url}/alerts")
    return "\n".join(line for line in lines if line)


def _measured(body: Mapping[str, Any]) -> str:
    value = amount(body["value"], body["unit"])
    limit = amount(body["threshold"], body["unit"])
    if body["kind"] == "resolved":
        worst = amount(body["worst"], body["unit"])
        return f"{body['description']}: well again since {body['resolved_at']}; at worst {worst}."
    side = {">": "more", "<": "less"}[body["comparison"]]
    return f"{body['description']}: {value}, {side} than {limit}, since {body['broken_since']}."


def amount(value: float | None, unit: str) -> str:
    """Write a measured value with its unit."""
    if value is None:
        return "unknown"
    if unit == "share":
        return f"{value:.1%}"
    number = f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
    return f"{number} {unit.removesuffix('s') if value == 1 else unit}"
