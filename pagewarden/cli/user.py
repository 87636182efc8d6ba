"""`pagewarden user`: manage users and the admin role."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import sys
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from pagewarden import errors
from pagewarden.auth.embedded import users
from pagewarden.local import stack
from pagewarden.settings import load as load_settings

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pagewarden.settings import Settings

T = TypeVar("T")

app = typer.Typer(
    help="Manage users and the admin role, held by HAC (the human reviewers).",
    no_args_is_help=True,
)

out = Console(highlight=False)

Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Email address of the user.")]
PasswordStdin = Annotated[
    bool,
    typer.Option(
        "--password-stdin", help="Read the password from the first line of standard input."
    ),
]


class Role(enum.StrEnum):
    """Roles that can be assigned."""

    ADMIN = "admin"
    NONE = "none"


class UserDirectory(Protocol):
    """Users of the local database or of a Supabase project."""

    async def add(self, email: str, password: str, *, is_admin: bool) -> None:
        """Add a user."""

    async def set_password(self, email: str, password: str) -> None:
        """Set a new password."""

    async def create_recovery_link(self, email: str) -> str:
        """Make a link that signs in once."""

    async def set_admin(self, email: str, *, is_admin: bool) -> None:
        """Grant or revoke the admin role."""

    async def list_all(self) -> Sequence[users.UserSummary]:
        """List all users."""

    async def remove(self, email: str) -> None:
        """Remove a user."""


@app.command()
def add(
    email: Email,
    *,
    admin: Annotated[bool, typer.Option("--admin", help="Grant the admin role.")] = False,
    password_stdin: PasswordStdin = False,
) -> None:
    """Add a user. Without --password-stdin, generate a password and show it once."""
    password = _read_password() if password_stdin else users.generate_password()
    _with_users(lambda directory: directory.add(email, password, is_admin=admin))
    out.print(f"added {email}{' with the admin role' if admin else ''}")
    if not password_stdin:
        _print_password(password)


@app.command()
def reset(
    email: Email,
    *,
    password_stdin: PasswordStdin = False,
    link: Annotated[
        bool,
        typer.Option("--link", help="Print a link that lets the user set a password instead."),
    ] = False,
) -> None:
    """Set a new password, and sign the user out everywhere."""
    if link:
        url = _with_users(lambda directory: directory.create_recovery_link(email))
        out.print(url, soft_wrap=True)
        return
    password = _read_password() if password_stdin else users.generate_password()
    _with_users(lambda directory: directory.set_password(email, password))
    out.print(f"{email} has a new password and has been signed out of all sessions")
    if not password_stdin:
        _print_password(password)


@app.command()
def role(email: Email, role: Annotated[Role, typer.Argument(help="The new role.")]) -> None:
    """Grant (admin) or revoke (none) the admin role, effective immediately."""
    _with_users(lambda directory: directory.set_admin(email, is_admin=role is Role.ADMIN))
    out.print(f"{email} {'has' if role is Role.ADMIN else 'does not have'} the admin role")


@app.command("list")
def show() -> None:
    """List users."""
    table = Table("email", "role", "added", "last sign-in", box=None, pad_edge=False)
    for user in _with_users(lambda directory: directory.list_all()):
        table.add_row(
            user.email,
            "admin" if user.is_admin else "-",
            _format_time(user.created_at),
            _format_time(user.last_sign_in_at),
        )
    out.print(table)


@app.command()
def remove(email: Email) -> None:
    """Remove a user. Their cases remain, and HAC can access them."""
    _with_users(lambda directory: directory.remove(email))
    out.print(f"removed {email}")


def _with_users(action: Callable[[UserDirectory], Awaitable[T]]) -> T:
    async def run() -> T:
        async with _open_users(load_settings()) as directory:
            return await action(directory)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def _open_users(settings: Settings) -> AsyncIterator[UserDirectory]:
    """Open the users of the configured Supabase project, or of the local database."""
    if settings.supabase_url and settings.supabase_key:
        # Imported here because it doubles the import time.
        from pagewarden.auth.hosted import open_hosted_users  # noqa: PLC0415

        key = settings.supabase_key.get_secret_value()
        async with open_hosted_users(
            settings.supabase_url, key, site_url=settings.site_url
        ) as hosted:
            yield hosted
        return
    async with (
        stack.open_migrated(settings) as found,
        users.open_users(found.url, site_url=settings.site_url) as local,
    ):
        yield local


def _read_password() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise errors.SettingsError(
            "there is no password on standard input; pipe it in, or omit --password-stdin"
        )
    return password


def _print_password(password: str) -> None:
    out.print(f"password: [bold]{password}[/]  (not shown again)")


def _format_time(time: dt.datetime | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M") if time else "-"
