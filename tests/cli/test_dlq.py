"""pagewarden dlq: as an operator types it."""

from __future__ import annotations

import asyncio
import getpass
import json
import uuid
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


async def typed(*words: str, given: str = "", code: int = 0) -> str:
    """Type a command, and give what it said; an error of ours is raised."""
    result = await asyncio.to_thread(
        testing.CliRunner().invoke, cli.app, ["dlq", *words], input=given, env={"COLUMNS": "300"}
    )
    if isinstance(result.exception, errors.PagewardenError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


async def statuses(factory: factories.Factory) -> dict[uuid.UUID, str]:
    """Say what became of the dead letters."""
    rows = await queries.rows(factory.conn, "select id, status from ocr_dead_letter")
    return {row["id"]: row["status"] for row in rows}


async def test_dead_letters_are_listed_by_group_and_one_by_one(factory: factories.Factory) -> None:
    """Filters choose; what is more than fits is counted; programs get JSON."""
    case = await factory.case()
    torn = [await factory.dead_letter(case, error=f"page {n} [bold]torn") for n in range(3)]
    odd = await factory.dead_letter(error="no \x1b[31mfont", category="configuration")

    everything = await typed("list")
    few = await typed("list", "--limit", "1")
    chosen = await typed("list", "--category", "configuration")
    grouped = json.loads(await typed("list", "--group", "page <n> [bold]torn", "--json"))
    of_case = json.loads(await typed("list", "--case", str(case), "--name", "FILE", "--json"))

    assert "page <n> [bold]torn" in everything
    assert all(str(each.dlq_id) in everything for each in (*torn, odd))
    assert "\x1b" not in everything
    assert "and 3 more" in few
    assert str(odd.dlq_id) in chosen
    assert str(torn[0].dlq_id) not in chosen
    assert grouped["matching"] == grouped["groups"][0]["letters"] == 3
    assert {each["dlq_id"] for each in of_case["letters"]} == {str(each.dlq_id) for each in torn}
    assert "no dead letters match" in await typed("list", "--status", "abandoned")
    with pytest.raises(errors.InvalidArgument, match="unknown status nope"):
        await typed("list", "--status", "nope")


async def test_one_is_shown_with_its_history(factory: factories.Factory) -> None:
    """Every attempt, error and decision; who is not there is said."""
    letter = await factory.dead_letter(error="the file is broken")
    await typed("requeue", str(letter.dlq_id), "--yes", "--notes", "a new reader")

    said = await typed("show", str(letter.dlq_id))
    found = json.loads(await typed("show", str(letter.dlq_id), "--json"))

    for told in ("the file is broken", "worker-1", "requeued", "a new reader", "is queued"):
        assert told in said
    assert found["letter"]["dlq_id"] == str(letter.dlq_id)
    assert [event["kind"] for event in found["history"]] == ["requeued", "dead_letter", "failure"]
    assert "there is no dead letter" in await typed("show", str(uuid.uuid4()), code=1)
    await typed("show", "nope", code=2)


async def test_what_is_named_is_decided_and_the_rest_told(factory: factories.Factory) -> None:
    """By id; what was decided before, or is not there, is skipped, and the exit code says so."""
    made = [await factory.dead_letter() for _ in range(3)]
    first, second, third = (str(each.dlq_id) for each in made)
    gone = str(uuid.uuid4())

    assert "abandoned: 1 dead letter" in await typed("abandon", first, "--yes")
    said = await typed("requeue", first, second, gone, "--yes", code=1)
    answer = json.loads(await typed("requeue", second, "-y", "--json", code=1))

    assert "requeued: 1 dead letter" in said
    assert "skipped: 2 dead letters" in said
    assert f"{first} file-" in said
    assert "abandoned by an operator or a service at 20" in said
    assert f"{gone} : there is no such dead letter" in said
    assert answer["skipped"][0]["error"] == "ALREADY_RESOLVED"
    assert list((await statuses(factory)).values()).count("pending") == 1
    assert third


async def test_all_that_match_are_decided_after_a_question(factory: factories.Factory) -> None:
    """The number is in the question; no means no; never all there are."""
    made = [await factory.dead_letter(error=f"page {n} torn") for n in range(2)]
    other = await factory.dead_letter(error="no font")
    words = ("abandon", "--all-matching", "--group", "page <n> torn")

    refused = await typed(*words, given="n\n", code=1)
    untouched = await statuses(factory)
    agreed = await typed(*words, given="y\n")

    assert "abandon 2 dead letters?" in refused
    assert set(untouched.values()) == {"pending"}
    assert "abandoned: 2 dead letters" in agreed
    assert await statuses(factory) == {
        made[0].dlq_id: "abandoned",
        made[1].dlq_id: "abandoned",
        other.dlq_id: "pending",
    }
    for wrong, told in (
        (("requeue",), "specify IDs"),
        (("requeue", "--all-matching", "--yes"), "needs a filter"),
        (("requeue", "--category", "unknown"), "--all-matching"),
        (("requeue", str(other.dlq_id), "--all-matching"), "not both"),
        (("requeue", str(other.dlq_id), "--category", "unknown"), "not both"),
    ):
        assert told in await typed(*wrong, code=2), wrong


async def test_the_log_says_which_operator_it_was(factory: factories.Factory) -> None:
    """No person is signed in, so the line has none, but the account of the machine."""
    letter = await factory.dead_letter()
    await typed("abandon", str(letter.dlq_id), "--yes", "--notes", "a test page")

    act = await queries.one(
        factory.conn,
        "select user_id, action_description from hac_logs"
        " where action_type = 'dead_letter_abandon'",
    )
    assert act["user_id"] is None
    assert act["action_description"].startswith(f"a test page ({getpass.getuser()} on ")


@pytest.mark.parametrize("words", [[], ["list"], ["show"], ["requeue"], ["abandon"]])
async def test_dlq_explains_itself(words: list[str]) -> None:
    """--help works everywhere."""
    assert "Usage: " in await typed(*words, "--help")
