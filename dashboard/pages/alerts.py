"""Alerts: rules, history, notifications and silences; change, test and silence rules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from pagewarden.dashboard import csrf, flash, lists, rendering, route, sessions
from pagewarden.database import tables
from pagewarden.notifications import alerts

PAGE = route.Page("Alerts", "/alerts", route.Audience.ADMIN, route.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 20
MINUTES = {60: "an hour", 240: "4 hours", 1440: "a day", 10080: "a week"}

Minutes = Annotated[int, Form(ge=1, le=43_200)]
Reason = Annotated[str, Form(max_length=1000)]


class AlertCursor(lists.ListFilter):
    """Position in the history: the last alert of the previous page."""

    path = PAGE.path

    before: str = ""
    before_id: int = 0


@router.get("")
async def show_alerts(
    request: Request, user: sessions.Admin, cursor: Annotated[AlertCursor, Query()]
) -> Response:
    """Show the rules with their current values; htmx reloads them."""
    is_fragment = request.headers.get("HX-Target") == "rules"
    rules = await user.database.list_alert_rules()
    values: dict[str, Any] = {"rules": rules, "amount": alerts.format_amount, "minutes": MINUTES}
    if not is_fragment:
        values |= await _read_history(user, cursor) | await _read_notifications(user)
    return rendering.render_page(request, "alerts.html", is_fragment=is_fragment, **values)


async def _read_history(user: sessions.CurrentUser, cursor: AlertCursor) -> dict[str, Any]:
    fired = await user.database.list_alerts(
        before=cursor.before or None, before_id=cursor.before_id or None, limit=ROWS + 1
    )

    def make_next_url(last: Mapping[str, Any]) -> str:
        return cursor.url(before=last["fired_at"], before_id=last["id"])

    shown, next_url = lists.split_page(fired, ROWS, make_next_url)
    return {"fired": shown, "next_url": next_url}


async def _read_notifications(user: sessions.CurrentUser) -> dict[str, Any]:
    database = user.database
    silences = await database.select(tables.alert_silences, order="ends_at.desc", limit=ROWS)
    now = dt.datetime.now(dt.UTC)
    active = [row for row in silences if dt.datetime.fromisoformat(row["ends_at"]) > now]
    notes = await database.select(tables.alert_notices, order="created_at.desc", limit=ROWS)
    return {"silences": active, "notices": notes}


@router.post("/silence")
async def silence(
    user: sessions.Admin,
    _token: csrf.FormToken,
    minutes: Minutes = 60,
    reason: Reason = "",
    rule: Annotated[str, Form()] = "",
) -> Response:
    """Send no notifications of a rule, or of all rules, for some time."""
    if not reason.strip():
        return flash.redirect_with_notice(
            PAGE.path, "Enter a reason for the silence.", is_error=True
        )
    answer = await user.database.silence_alerts(
        minutes=minutes, reason=reason.strip(), rule=rule or None
    )
    name = rule or "All rules"
    return flash.redirect_with_answer(PAGE.path, answer, f"{name}: silenced.")


@router.post("/silences/{silence_id}/end")
async def end_silence(user: sessions.Admin, _token: csrf.FormToken, silence_id: int) -> Response:
    """End a silence early."""
    answer = await user.database.end_silence(silence_id=silence_id)
    return flash.redirect_with_answer(PAGE.path, answer, "Silence ended.")


@router.post("/rules/{rule}/test")
async def send_test(user: sessions.Admin, _token: csrf.FormToken, rule: str) -> Response:
    """Send a test alert to all recipients of a rule."""
    answer = await user.database.test_alert(rule=rule)
    message = f"A test alert for {rule} will be sent within a minute. See Notifications below."
    return flash.redirect_with_answer(PAGE.path, answer, message)


@router.post("/rules/{rule}")
async def change_rule(
    user: sessions.Admin,
    _token: csrf.FormToken,
    rule: str,
    threshold: Annotated[float, Form()],
    enabled: Annotated[bool, Form()] = False,  # noqa: FBT002  # browsers omit unchecked boxes
) -> Response:
    """Set the threshold of a rule, and enable or disable it."""
    changes = {"threshold": threshold, "enabled": enabled}
    answer = await user.database.set_alert_rule(rule=rule, changes=changes)
    state = "enabled" if enabled else "disabled"
    return flash.redirect_with_answer(
        PAGE.path, answer, f"{rule}: {state}, threshold {threshold:g}."
    )
