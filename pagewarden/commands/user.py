"""pagewarden user: who can sign in, and who is one of HAC."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import sys
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from pagewarden import errors, settings
from pagewarden.local import stack
from pagewarden.local.sign_in import passwords, users

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

T = TypeVar("T")

app = typer.Typer(
    help="Say who can sign in, and who is one of HAC (the people who review).",
    no_args_is_help=True,
)

out = Console(highlight=False)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The address somebody signs in with.")]
PasswordStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Take the password from the first line of standard input."
    ),
]


class Role(enum.StrEnum):
    """What somebody can be made."""

    ADMIN = "admin"
    NONE = "none"


class People(Protocol):
    """Whoever can sign in, at home or in a Supabase project."""

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Let somebody sign in."""

    async def set_password(self, email: str, password: str) -> None:
        """Give a new password."""

    async def recovery_link(self, email: str) -> str:
        """Make a link that lets in once."""

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Make somebody one of HAC, or not any more."""

    async def everybody(self) -> Sequence[users.Person]:
        """List the people."""

    async def remove(self, email: str) -> None:
        """Let somebody sign in no more."""


@app.command()
def add(
    email: Email,
    *,
    admin: Annotated[bool, typer.Option("--admin", help="Make them one of HAC, too.")] = False,
    password_stdin: PasswordStdin = False,
) -> None:
    """Let somebody sign in. Without --password-stdin a password is made and shown once."""
    password = _given_password() if password_stdin else passwords.generate()
    _with_people(lambda people: people.add(email, password, is_admin=admin))
    out.print(f"{email} can sign in{' and is one of HAC' if admin else ''}")
    if not password_stdin:
        _show_password(password)


@app.command()
def reset(
    email: Email,
    *,
    password_stdin: PasswordStdin = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Make a link instead, with which they choose it themselves."),
    ] = False,
) -> None:
    """Give somebody a new password, and sign them out everywhere."""
    if link:
        out.print(_with_people(lambda people: people.recovery_link(email)), soft_wrap=True)
        return
    password = _given_password() if password_stdin else passwords.generate()
    _with_people(lambda people: people.set_password(email, password))
    out.print(f"{email} has a new password and is signed out everywhere")
    if not password_stdin:
        _show_password(password)


@app.command()
def role(email: Email, role: Annotated[Role, typer.Argument(help="What they shall be.")]) -> None:
    """Make somebody one of HAC (admin), or not any more (none). It counts at once."""
    _with_people(lambda people: people.set_admin(email, is_admin=role is Role.ADMIN))
    out.print(f"{email} is {'now' if role is Role.ADMIN else 'not'} one of HAC")


@app.command("list")
def show() -> None:
    """Show who can sign in."""
    table = Table("address", "role", "added", "last signed in", box=None, pad_edge=False)
    for person in _with_people(lambda people: people.everybody()):
        kind = "admin" if person.is_admin else "-"
        table.add_row(person.email, kind, _day(person.created_at), _day(person.last_sign_in_at))
    out.print(table)


@app.command()
def remove(email: Email) -> None:
    """Let somebody sign in no more. Their cases stay, and HAC sees them."""
    _with_people(lambda people: people.remove(email))
    out.print(f"{email} is gone")


def _with_people(act: Callable[[People], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _opened(settings.load()) as people:
            return await act(people)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def _opened(chosen: settings.Settings) -> AsyncIterator[People]:
    """Find the people: in the Supabase project of the settings, otherwise in our own database."""
    if chosen.supabase_url and chosen.supabase_key:
        # Takes as long to import as all the rest.
        from pagewarden import hosted_users  # noqa: PLC0415

        key = chosen.supabase_key.get_secret_value()
        async with hosted_users.opened(
            chosen.supabase_url, key, site_url=chosen.site_url
        ) as hosted:
            yield hosted
        return
    async with (
        stack.ready(chosen) as found,
        users.opened(found.url, site_url=chosen.site_url) as local,
    ):
        yield local


def _given_password() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise errors.SettingsError(
            "there is no password on standard input; pipe it in, or leave --password-stdin out"
        )
    return password


def _show_password(password: str) -> None:
    out.print(f"password: [bold]{password}[/]  (shown only now)")


def _day(moment: dt.datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M") if moment else "-"
