"""pagewarden user: as an operator types it, against a database and against a Supabase project."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from typer import testing

from pagewarden import cli, errors
from pagewarden.auth.embedded import service, sessions
from pagewarden.auth.keys import InstallationKeys
from tests.support.serving import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support import databases

ADA = "ada@example.org"
PASSWORD = "correct horse battery staple"
KEYS = InstallationKeys("sb_secret_x", None, "the secret of this test, which is long enough")
HERE = sessions.RequestOrigin("192.0.2.1", "")


async def typed(*words: str, given: str = "") -> str:
    """Type a command, and give what it said; an error of ours is raised."""
    result = await asyncio.to_thread(
        testing.CliRunner().invoke, cli.app, ["user", *words], input=given, env={"COLUMNS": "300"}
    )
    if isinstance(result.exception, errors.PagewardenError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def shown_password(said: str) -> str:
    """Find the password in what a command said."""
    found = re.search(r"^password: (\S+)", said, re.MULTILINE)
    assert found
    return found[1]


@pytest.fixture
def at_home(database: databases.Database, monkeypatch: pytest.MonkeyPatch) -> databases.Database:
    """Let the command find a database of the test's own."""
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", database.url())
    return database


@pytest.fixture
async def signing(at_home: databases.Database) -> AsyncIterator[service.AuthService]:
    """Let people sign in there."""
    made = service.AuthService(at_home.url(), KEYS, site_url="http://x")
    yield made
    await made.aclose()


async def test_person_who_was_added_can_sign_in_until_removed(signing: service.AuthService) -> None:
    """The password is shown once; an administrator is one of HAC; a removed person is gone."""
    said = await typed("add", "Ada@Example.org", "--admin")
    grant = await signing.sign_in(ADA, shown_password(said), HERE)
    listed = await typed("list")
    await typed("remove", ADA)

    assert grant.user.email == ADA
    assert re.search(rf"{ADA} +admin +\d{{4}}-", listed)
    with pytest.raises(errors.SignInRejected):
        await signing.sign_in(ADA, shown_password(said), HERE)
    with pytest.raises(errors.SignInRejected):
        await signing.refresh(grant.refresh_token, HERE)
    assert ADA not in await typed("list")


async def test_password_from_standard_input_is_not_shown(signing: service.AuthService) -> None:
    """A script can choose it."""
    said = await typed("add", ADA, "--password-stdin", given=PASSWORD + "\n")

    assert PASSWORD not in said
    assert await signing.sign_in(ADA, PASSWORD, HERE)


async def test_reset_gives_a_new_password_and_signs_out(signing: service.AuthService) -> None:
    """The old one, and whoever is signed in with it, are out."""
    old = shown_password(await typed("add", ADA))
    grant = await signing.sign_in(ADA, old, HERE)

    new = shown_password(await typed("reset", ADA))

    assert await signing.sign_in(ADA, new, HERE)
    with pytest.raises(errors.SignInRejected):
        await signing.sign_in(ADA, old, HERE)
    with pytest.raises(errors.SignInRejected):
        await signing.refresh(grant.refresh_token, HERE)
    await typed("reset", ADA, "--password-stdin", given=PASSWORD)
    assert await signing.sign_in(ADA, PASSWORD, HERE)


async def test_reset_by_link_lets_the_person_choose(signing: service.AuthService) -> None:
    """The link is the whole answer, so that it can be handed on; a newer one voids it."""
    await typed("add", ADA)
    first, second = [(await typed("reset", ADA, "--link")).strip() for _ in range(2)]

    assert second.startswith("http://127.0.0.1:54321/auth/v1/verify?")
    with pytest.raises(errors.SignInRejected):
        await signing.use_recovery(parse_qs(urlsplit(first).query)["token"][0], None, HERE)
    assert await signing.use_recovery(parse_qs(urlsplit(second).query)["token"][0], None, HERE)


async def test_role_counts_at_once_and_is_written_down(at_home: databases.Database) -> None:
    """Giving and taking it twice changes nothing more."""
    await typed("add", ADA)
    conn = await at_home.connect()
    admins = "select count(*) from user_roles where role = 'admin'"
    for role, expected in (("admin", 1), ("admin", 1), ("none", 0), ("none", 0)):
        await typed("role", ADA, role)
        assert await (await conn.execute(admins)).fetchone() == (expected,)

    acts = await conn.execute(
        "select action_type, old_value, new_value, metadata ->> 'user_id' = (select id::text from "
        "auth.users) from hac_logs order by created_at"
    )
    assert await acts.fetchall() == [
        ("role_given", None, "admin", True),
        ("role_taken", "admin", None, True),
    ]


@pytest.mark.usefixtures("at_home")
async def test_what_cannot_be_done_is_said() -> None:
    """One line that says what is wrong and what to do."""
    for words, given, told in (
        (["add", "ada"], "", "is not a valid email address"),
        (["add", "a" * 250 + "@example.org"], "", "is not a valid email address"),
        (["add", "a\x00@example.org"], "", "is not a valid email address"),
        (["add", ADA, "--password-stdin"], "short\n", "12 to 1000 characters"),
        (["add", ADA, "--password-stdin"], "", "no password on standard input"),
        (["reset", ADA], "", "there is no user ada@example.org"),
        (["reset", ADA, "--link"], "", "user list"),
        (["role", ADA, "admin"], "", "user list"),
        (["remove", ADA], "", "user list"),
    ):
        with pytest.raises(errors.PagewardenError, match=told):
            await typed(*words, given=given)
    await typed("add", ADA)
    with pytest.raises(errors.SignInRejected, match="user reset"):
        await typed("add", "ADA@example.org")


async def test_database_of_a_supabase_project_is_left_alone(
    bare_database: databases.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People of a project are added through its own API, never behind its back."""
    conn = await bare_database.connect("supabase_admin")
    await conn.execute("drop table auth.failed_sign_ins")
    monkeypatch.setenv("PAGEWARDEN_DATABASE_URL", bare_database.url())

    with pytest.raises(errors.SettingsError, match="PAGEWARDEN_SUPABASE_URL"):
        await typed("add", ADA)


@dataclass
class Project:
    """The part of a Supabase project that manages people, on loopback."""

    url: str = ""
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    admins: set[str] = field(default_factory=set)
    keys: set[str | None] = field(default_factory=set)

    async def users(self, request: Request, page: int = 1, per_page: int = 50) -> Any:
        """List people page by page, or add one."""
        self.keys.add(request.headers.get("apikey"))
        if request.method == "GET":
            start = (page - 1) * per_page
            return {"users": list(self.people.values())[start : start + per_page]}
        body = await request.json()
        if any(body["email"] == known["email"] for known in self.people.values()):
            raise HTTPException(422)
        return self.add(body["email"], body["password"])

    def add(self, email: str, password: str = "") -> dict[str, Any]:
        """Add somebody."""
        made: dict[str, Any] = {
            "id": str(uuid.uuid4()), "email": email, "password": password, "aud": "authenticated",
            "app_metadata": {}, "user_metadata": {}, "created_at": dt.datetime.now(dt.UTC),
        }  # fmt: skip
        self.people[made["id"]] = made
        return made

    async def user(self, user_id: str, request: Request) -> Any:
        """Change or remove somebody."""
        if request.method == "DELETE":
            return self.people.pop(user_id) and {}
        self.people[user_id] |= await request.json()
        return self.people[user_id]

    async def link(self, request: Request) -> Any:
        """Make a recovery link."""
        body = await request.json()
        (found,) = (known for known in self.people.values() if known["email"] == body["email"])
        return found | {
            "action_link": f"{self.url}/auth/v1/verify?to={request.query_params['redirect_to']}",
            "email_otp": "1", "hashed_token": "2", "redirect_to": "3",
            "verification_type": body["type"],
        }  # fmt: skip

    async def roles(self, request: Request) -> Any:
        """Do what PostgREST does to user_roles."""
        if request.method == "GET":
            return [{"user_id": user_id, "role": "admin"} for user_id in self.admins]
        if request.method == "POST":
            self.admins.add((await request.json())["user_id"])
        else:
            self.admins.discard(request.query_params["user_id"].removeprefix("eq."))
        return Response("[]", 201, media_type="application/json")


@pytest.fixture
async def project(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    """Let the command find a project instead of a database."""
    made, app = Project(), FastAPI()
    app.add_api_route("/auth/v1/admin/users", made.users, methods=["GET", "POST"])
    app.add_api_route("/auth/v1/admin/users/{user_id}", made.user, methods=["PUT", "DELETE"])
    app.add_api_route("/auth/v1/admin/generate_link", made.link, methods=["POST"])
    app.add_api_route("/rest/v1/user_roles", made.roles, methods=["GET", "POST", "DELETE"])
    async with serve_app(app) as made.url:
        monkeypatch.setenv("PAGEWARDEN_SUPABASE_URL", made.url)
        monkeypatch.setenv("PAGEWARDEN_SUPABASE_KEY", "sb_secret_x")
        yield made


async def test_people_of_a_project_are_managed_through_its_api(project: Project) -> None:
    """The same commands, with the project's secret key; its people may be many pages."""
    for number in range(1001):
        project.add(f"{number}@example.org")
    password = shown_password(await typed("add", ADA, "--admin"))
    (ada,) = (person for person in project.people.values() if person["email"] == ADA)

    assert (ada["password"], ada["id"] in project.admins) == (password, True)
    assert re.search(rf"{ADA} +admin", await typed("list"))
    assert shown_password(await typed("reset", ADA)) == ada["password"] != password
    assert "verify?to=http://127.0.0.1:54321" in await typed("reset", ADA, "--link")
    await typed("role", ADA, "none")
    assert project.admins == set()
    await typed("role", ADA, "admin")
    assert project.admins == {ada["id"]}
    await typed("remove", ADA)
    assert ada["id"] not in project.people
    assert project.keys == {"sb_secret_x"}


async def test_what_a_project_refuses_is_said(project: Project) -> None:
    """Its own words, without a traceback; nobody there is an outage."""
    project.add(ADA)
    with pytest.raises(errors.SignInRejected, match="the Supabase project returned"):
        await typed("add", ADA)
    with pytest.raises(errors.SignInRejected, match="user list"):
        await typed("remove", "nobody@example.org")


async def test_project_that_is_away_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command says so."""
    monkeypatch.setenv("PAGEWARDEN_SUPABASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("PAGEWARDEN_SUPABASE_KEY", "sb_secret_x")
    for words in (["add", ADA], ["list"], ["remove", ADA]):
        with pytest.raises(errors.PagewardenError, match="cannot be reached") as caught:
            await typed(*words)
        assert caught.value.outage


@pytest.mark.parametrize("words", [[], ["add"], ["reset"], ["role"], ["list"], ["remove"]])
def test_every_command_explains_itself(words: list[str]) -> None:
    """--help works everywhere and says more than the usage."""
    result = testing.CliRunner().invoke(cli.app, ["user", *words, "--help"])

    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5
