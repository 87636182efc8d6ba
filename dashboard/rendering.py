"""HTML pages from Jinja templates, with bar charts, vendor scripts and template filters.

Templates escape all values.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import FileResponse, HTMLResponse
from starlette.exceptions import HTTPException

from pagewarden import data_files
from pagewarden.dashboard import csrf, flash
from pagewarden.documents import pages
from pagewarden.errors import SettingsError
from pagewarden.ocr import engines

WIDTH = 480
HEIGHT = 96
_GAP = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle in the units of its chart, origin top left, with a tooltip."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart with a summary for screen readers and the label of its first bar."""

    title: str
    summary: str
    bars: tuple[Bar, ...]
    bad_bars: tuple[Bar, ...] = ()
    first: str = ""
    width: int = WIDTH
    height: int = HEIGHT


def make_bar_chart(
    title: str, summary: str, values: Sequence[tuple[str, float, float]], unit: str = ""
) -> Chart:
    """Draw a bar for each (label, value, bad value), with the bad value stacked on top."""
    tallest = max((good + bad for _, good, bad in values), default=0) or 1
    step = WIDTH / max(len(values), 1)
    good_bars, bad_bars = [], []
    for number, (label, good, bad) in enumerate(values):
        x, width = step * (number + _GAP / 2), step * (1 - _GAP)
        low, high = HEIGHT * good / tallest, HEIGHT * bad / tallest
        tooltip = f"{label}: {good:g}{unit}" + (f", {bad:g} dead letters" if bad else "")
        good_bars.append(_make_bar(x, HEIGHT - low, width, low, tooltip))
        if bad:
            bad_bars.append(_make_bar(x, HEIGHT - low - high, width, high, tooltip))
    first = values[0][0] if values else ""
    return Chart(title, summary, tuple(good_bars), tuple(bad_bars), first)


def _make_bar(x: float, y: float, width: float, height: float, label: str) -> Bar:
    return Bar(round(x, 2), round(y, 2), round(width, 2), round(height, 2), label)


_VENDOR_FILES = {"htmx.min.js": "node_modules/htmx.org/dist/htmx.min.js"}

HTMX_MISSING = "htmx is not installed, so pages do not update. Run `make setup`, then reload."


def find_missing_vendor_files() -> str | None:
    """Return how to install missing vendor files; None if there are none."""
    return HTMX_MISSING if None in map(_find_vendor_file, _VENDOR_FILES) else None


def serve_vendor_file(name: str) -> FileResponse:
    """Serve a vendor file."""
    if name not in _VENDOR_FILES:
        raise HTTPException(404, f"{name} does not exist")
    path = _find_vendor_file(name)
    if path is None:
        raise HTTPException(404, HTMX_MISSING)
    return FileResponse(path, media_type="text/javascript")


def _find_vendor_file(name: str) -> Path | None:
    try:
        return data_files.find(_VENDOR_FILES[name])
    except SettingsError:
        return None


_ENGINES = [name for name in engines.ENGINES if name != "null"]
_TEMPLATES = Path(__file__).parent / "templates"


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401  # values of the template
    """Render a page with its menu, or only the fragment that htmx requests."""
    response = HTMLResponse(render_html(request, template, **values), status)
    if flash.read_notice(request):
        flash.clear_notice(response)
    return response


def render_html(request: Request, template: str, **values: Any) -> str:  # noqa: ANN401  # values of the template
    """Render a template for the current user, if any."""
    user = getattr(request.state, "user", None)
    state = request.app.state
    return (
        _get_environment()
        .get_template(template)
        .render(
            user=user,
            menu=[
                page for page in state.menu if user and page.is_visible_to(is_admin=user.is_admin)
            ],
            path=request.url.path,
            csrf=csrf.make_token(state.services, user) if user else "",
            missing=find_missing_vendor_files(),
            done=flash.read_notice(request),
            **values,
        )
    )


@functools.cache
def _get_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": format_duration,
        "moment": format_time,
        "hits": pages.split_headline,
        "size": format_size,
        "ago": format_time_ago,
        "age": format_age,
    }
    environment.globals |= {"engines": _ENGINES, "profiles": engines.PROFILES}
    return environment


def format_duration(seconds: float | None) -> str:
    """Format a duration in its largest fitting unit: 45 s, 3 min, 2 h, 5 d."""
    if seconds is None:
        return "—"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_time(timestamp: str | None) -> str:
    """Format a database timestamp to the minute."""
    if timestamp is None:
        return "—"
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_time_ago(timestamp: str | None) -> str:
    """Format the time since a database timestamp: just now, 3 min ago."""
    if timestamp is None:
        return "never"
    return "just now" if _seconds_since(timestamp) < 5 else f"{format_age(timestamp)} ago"


def format_age(timestamp: str) -> str:
    """Format the time since a database timestamp: 3 min."""
    return format_duration(_seconds_since(timestamp))


def _seconds_since(timestamp: str) -> float:
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(timestamp)).total_seconds()


def format_size(count: float) -> str:
    """Format a number of bytes: 900 B, 12 KB, 3.4 GB."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
