"""Pages as HTML: what is put into them is text, never markup."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse

from dashboard import forgery, notices, parts, vendor
from pagewarden import headlines
from pagewarden.reading import engines

_ENGINES = [name for name in engines.ENGINES if name != "null"]
_TEMPLATES = Path(__file__).parent / "templates"


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401  # whatever it shows
    """Render a whole page with its menu, or what the template says is a part of one."""
    response = HTMLResponse(html(request, template, **values), status)
    if notices.waiting(request):
        notices.shown(response)
    return response


def html(request: Request, template: str, **values: Any) -> str:  # noqa: ANN401  # whatever it shows
    """Render a template for whoever asks."""
    used = parts.of_request(request)
    visitor = getattr(request.state, "visitor", None)
    return (
        _environment()
        .get_template(template)
        .render(
            visitor=visitor,
            menu=[p for p in used.pages if visitor and p.is_for(admin=visitor.is_admin)],
            path=request.url.path,
            csrf=forgery.token(used, visitor) if visitor else "",
            missing=vendor.missing(),
            done=notices.waiting(request),
            **values,
        )
    )


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "duration": duration,
        "moment": moment,
        "hits": headlines.pieces,
        "size": size,
        "ago": ago,
        "age": age,
    }
    made.globals |= {"engines": _ENGINES, "profiles": engines.PROFILES}
    return made


def duration(seconds: float | None) -> str:
    """Write a length of time as people say it: 45 s, 3 min, 2 h, 5 d."""
    if seconds is None:
        return "—"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def moment(timestamp: str | None) -> str:
    """Write a timestamp of the database to the minute."""
    if timestamp is None:
        return "—"
    return dt.datetime.fromisoformat(timestamp).astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(timestamp: str | None) -> str:
    """Write how long ago a timestamp of the database was."""
    if timestamp is None:
        return "never"
    return "just now" if _seconds_since(timestamp) < 5 else f"{age(timestamp)} ago"


def age(timestamp: str) -> str:
    """Write for how long something has been so."""
    return duration(_seconds_since(timestamp))


def _seconds_since(timestamp: str) -> float:
    return (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(timestamp)).total_seconds()


def size(count: float) -> str:
    """Write a number of bytes as people say it: 900 B, 12 KB, 3.4 GB."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
