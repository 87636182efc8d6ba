"""pagewarden login and logout: who the other commands are, as far as a server is concerned."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Annotated

import typer
from rich.console import Console

from pagewarden import client, errors, settings
from pagewarden.client import auth
from pagewarden.commands import options  # noqa: TC001  # typer reads the annotations

out = Console(highlight=False)


def command(
    *,
    email: Annotated[str | None, typer.Option(help="The address you sign in with.")] = None,
    url: options.Url = None,
) -> None:
    """Sign in, so that upload and import bring documents in as yours.

    The password is asked for, or taken from the first line of standard input. What is kept of it
    is a session, in a file that only you can read; logout ends it.
    """
    chosen = settings.load()
    email = email or _asked_email()
    password = _asked_password()
    asyncio.run(_sign_in(chosen, url, email, password))


def logout(*, url: options.Url = None) -> None:
    """Sign out: end the session of this computer."""
    asyncio.run(_sign_out(settings.load(), url))


async def _sign_in(chosen: settings.Settings, url: str | None, email: str, password: str) -> None:
    sessions = client.SessionStore()
    apikey = auth.apikey_header(chosen.publishable_key)
    async with client.open_connection(chosen, url) as server:
        session = await auth.sign_in(server, email, password, apikey)
        async with sessions.locked():
            sessions.save(server.url, session)
    out.print(f"signed in as {session.email} at {server.url}", soft_wrap=True, markup=False)


async def _sign_out(chosen: settings.Settings, url: str | None) -> None:
    sessions = client.SessionStore()
    async with client.open_connection(chosen, url) as server:
        if sessions.get(server.url) is None:
            out.print(f"nobody is signed in at {server.url}", soft_wrap=True, markup=False)
            return
        person = auth.SessionCredentials(server, sessions, chosen.publishable_key)
        said = f"{person.account} is signed out at {server.url}"
        try:
            await auth.sign_out(server, await person.headers())
        except (errors.ServerError, errors.NotSignedIn) as exc:
            # Without its tokens, which are forgotten here, the session ends by itself.
            said = f"{said}, which was not told: {exc}"
        async with sessions.locked():
            sessions.remove(server.url)
    out.print(said, soft_wrap=True, markup=False)


def _asked_email() -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter("say who you are with --email")
    return str(typer.prompt("E-mail", err=True))


def _asked_password() -> str:
    given = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise typer.BadParameter("there is no password; type it, or pipe it in")
    return given
