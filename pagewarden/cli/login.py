"""`pagewarden login` and `logout`: sign in and out."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pagewarden import client, errors
from pagewarden.cli import options  # noqa: TC001  # typer reads the annotations
from pagewarden.client import auth
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    from pagewarden.settings import Settings


out = Console(highlight=False)


def command(
    *,
    email: Annotated[str | None, typer.Option(help="Your email address.")] = None,
    url: options.Url = None,
) -> None:
    """Sign in, so that upload and import act on your behalf.

    The command prompts for the password, or reads it from the first line of standard input. It
    stores a session, not the password, in a file that only you can read; logout ends the session.
    """
    settings = load_settings()
    email = email or _prompt_email()
    password = _read_password()
    asyncio.run(_sign_in(settings, url, email, password))


def logout(*, url: options.Url = None) -> None:
    """Sign out and end the session on this computer."""
    asyncio.run(_sign_out(load_settings(), url))


async def _sign_in(settings: Settings, url: str | None, email: str, password: str) -> None:
    sessions = client.SessionStore()
    apikey = auth.make_apikey_header(settings.publishable_key)
    async with client.open_connection(settings, url) as server:
        session = await auth.sign_in(server, email, password, apikey)
        async with sessions.locked():
            sessions.save(server.url, session)
    out.print(f"signed in to {server.url} as {session.email}", soft_wrap=True, markup=False)


async def _sign_out(settings: Settings, url: str | None) -> None:
    sessions = client.SessionStore()
    async with client.open_connection(settings, url) as server:
        if sessions.get(server.url) is None:
            out.print(f"not signed in at {server.url}", soft_wrap=True, markup=False)
            return
        credentials = auth.SessionCredentials(server, sessions, settings.publishable_key)
        message = f"{credentials.account} is signed out of {server.url}"
        try:
            await auth.sign_out(server, await credentials.get_headers())
        except (errors.ServerError, errors.NotSignedIn) as exc:
            # The tokens are deleted here, so the session on the server expires.
            message = f"{message}, but the server could not be notified: {exc}"
        async with sessions.locked():
            sessions.remove(server.url)
    out.print(message, soft_wrap=True, markup=False)


def _prompt_email() -> str:
    if not sys.stdin.isatty():
        raise typer.BadParameter("--email is required if standard input is not a terminal")
    return str(typer.prompt("Email", err=True))


def _read_password() -> str:
    password = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise typer.BadParameter("the password is empty; type it, or pipe it to standard input")
    return password
