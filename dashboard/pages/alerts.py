"""Alerts: what is wrong, what is watched, who was told; test, silence, change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from dashboard import forgery, lists, navigation, notices, rendering, route, visitors
from pagewarden.alerts import words
from pagewarden.database import tables

PAGE = navigation.Page("Alerts", "/alerts", navigation.Audience.ADMIN, navigation.OPERATION)

router = APIRouter(prefix=PAGE.path, route_class=route.Route, include_in_schema=False)

ROWS = 20
MINUTES = {60: "an hour", 240: "4 hours", 1440: "a day", 10080: "a week"}

Minutes = Annotated[int, Form(ge=1, le=43_200)]
Reason = Annotated[str, Form(max_length=1000)]


class Place(lists.Filter):
    """Where the last page of what fired ended."""

    path = PAGE.path

    before: str = ""
    before_id: str = ""

    def params(self) -> dict[str, Any]:
        """Say it to the database."""
        return {"p_before": self.before, "p_before_id": self.before_id} if self.before else {}


@router.get("")
async def listed(
    request: Request, visitor: visitors.Admin, place: Annotated[Place, Query()]
) -> Response:
    """Show the rules with what they show now; the page asks for them again and again."""
    part = request.headers.get("HX-Target") == "rules"
    rules = await visitor.database.rpc("list_alert_rules")
    shown = {"rules": rules, "amount": words.amount, "minutes": MINUTES}
    if not part:
        shown |= await _history(visitor, place) | await _told(visitor)
    return rendering.page(request, "alerts.html", part=part, **shown)


async def _history(visitor: visitors.Visitor, place: Place) -> dict[str, Any]:
    rows = await visitor.database.rpc("list_alerts", **place.params(), p_limit=ROWS + 1)

    def after(last: Mapping[str, Any]) -> str:
        return place.address(before=last["fired_at"], before_id=str(last["id"]))

    shown, more = lists.cut(rows, ROWS, after)
    return {"fired": shown, "more": more}


async def _told(visitor: visitors.Visitor) -> dict[str, Any]:
    database = visitor.database
    silences = await database.select(tables.alert_silences, order="ends_at.desc", limit=ROWS)
    now = dt.datetime.now(dt.UTC)
    lasting = [row for row in silences if dt.datetime.fromisoformat(row["ends_at"]) > now]
    notes = await database.select(tables.alert_notices, order="created_at.desc", limit=ROWS)
    return {"silences": lasting, "notices": notes}


@router.post("/silence")
async def silence(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    minutes: Minutes = 60,
    reason: Reason = "",
    rule: Annotated[str, Form()] = "",
) -> Response:
    """Tell nobody of a rule, or of any, for so long."""
    if not reason.strip():
        return notices.after(PAGE.path, "Say why nobody is to be told; others will ask.", bad=True)
    wanted = {"p_rule": rule} if rule else {}
    answer = await visitor.database.rpc(
        "silence_alerts", p_minutes=minutes, p_reason=reason.strip(), **wanted
    )
    what = rule or "every rule"
    return notices.answered(PAGE.path, answer, f"Nobody is told of {what} for a while.")


@router.post("/silences/{silence_id}/end")
async def speak(visitor: visitors.Admin, _acting: forgery.Acting, silence_id: int) -> Response:
    """End a silence before its time."""
    answer = await visitor.database.rpc("end_silence", p_silence_id=silence_id)
    return notices.answered(PAGE.path, answer, "The silence is over.")


@router.post("/rules/{rule}/test")
async def test(visitor: visitors.Admin, _acting: forgery.Acting, rule: str) -> Response:
    """Tell everybody whom a rule would tell, as a test."""
    answer = await visitor.database.rpc("test_alert", p_rule=rule)
    said = f"{rule} will be told as a test within a minute; below is how it went."
    return notices.answered(PAGE.path, answer, said)


@router.post("/rules/{rule}")
async def change(
    visitor: visitors.Admin,
    _acting: forgery.Acting,
    rule: str,
    threshold: Annotated[float, Form()],
    enabled: Annotated[bool, Form()] = False,  # noqa: FBT002  # a box that is not ticked is not sent
) -> Response:
    """Set the limit of a rule, and switch it on or off."""
    changes = {"threshold": threshold, "enabled": enabled}
    answer = await visitor.database.rpc("set_alert_rule", p_rule=rule, p_changes=changes)
    state = "watched" if enabled else "no longer watched"
    return notices.answered(PAGE.path, answer, f"{rule} is {state}, with the limit {threshold:g}.")
