"""pagewarden alerts: as an operator types it."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest
from typer import testing

from pagewarden import cli, errors
from tests.database import factories, queries

if TYPE_CHECKING:
    from tests.support import databases


@pytest.fixture
async def factory(
    database: databases.Database, monkeypatch: pytest.MonkeyPatch
) -> factories.Factory:
    """Let the command find a database of the test's own."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", database.url())
    return await factories.Factory.of(database)


async def typed(*words: str, code: int = 0) -> str:
    """Type a command, and give what it said; an error of ours is raised."""
    result = await asyncio.to_thread(
        testing.CliRunner().invoke, cli.app, ["alerts", *words], env={"COLUMNS": "300"}
    )
    if isinstance(result.exception, errors.PagewardenError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


async def test_what_is_wrong_comes_first_and_decides_the_exit_code(
    factory: factories.Factory,
) -> None:
    """So it can be asked by a script."""
    assert "not yet evaluated" in await typed("list")
    await factory.call("report_gauge", p_gauge="free_disk_share", p_value=0.01)
    await factory.call("evaluate_alerts")
    assert "pending" in await typed("list")
    await factory.conn.execute(
        "update private.alert_states set broken_since = now() - interval '1 hour'"
        " where broken_since is not null"
    )
    await factory.call("evaluate_alerts")

    shown = await typed("list", code=1)

    assert re.search(r"disk-critical +critical since .* 1\.0% +< 3\.0%", shown.splitlines()[1])
    rules = json.loads(await typed("list", "--json", code=1))
    assert {rule["rule"] for rule in rules if rule["alert_id"]} == {"disk-critical", "disk-warning"}


async def test_a_test_is_fired(factory: factories.Factory) -> None:
    """A rule that is not there is said not to be."""
    assert "within a minute" in await typed("test", "disk-critical")
    rows = await queries.rows(factory.conn, "select channel from alert_notices order by 1")
    assert [row["channel"] for row in rows] == ["email", "webhook"]
    with pytest.raises(errors.InvalidArgument, match="unknown rule nope"):
        await typed("test", "nope")


async def test_silences_begin_and_end(factory: factories.Factory) -> None:
    """Of one rule or of all; each with its reason."""
    await typed("silence", "disk-critical", "--reason", "moving")
    said = await typed("silence", "--minutes", "5", "--reason", "all of it")
    (number,) = re.findall(r"`pagewarden alerts unsilence (\d+)`", said)
    rows = await queries.rows(
        factory.conn, "select rule, reason, ends_at > now() as on from alert_silences order by id"
    )
    assert [(row["rule"], row["reason"]) for row in rows] == [
        ("disk-critical", "moving"),
        (None, "all of it"),
    ]
    assert "the silence has ended" in await typed("unsilence", number)
    assert "there is no such silence" in await typed("unsilence", number, code=1)
    await typed("silence", code=2)


async def test_status_tells_of_what_waits_and_of_alerts(factory: factories.Factory) -> None:
    """Also while documents wait, and when a lane is paused for a reason with brackets in it."""
    document = await factory.queued()
    await factory.call("pause_lane", p_lane="pdf", p_reason="new [disks]")
    await factory.conn.execute(
        "insert into alerts (rule, severity, value, worst, threshold, broken_since, fired_at) "
        "values ('disk-warning', 'warning', 0, 0, 0, now(), now())"
    )
    result = await asyncio.to_thread(testing.CliRunner().invoke, cli.app, ["status"])

    assert result.exit_code == 0, result.exception
    for words in (str(document), "new [disks]", "warning: disk-warning"):
        assert words in result.output
