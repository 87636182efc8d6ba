#!/usr/bin/env python3
"""Write the generated pages of docs/reference: database functions, routes and commands.

    .venv/bin/python scripts/reference.py

It needs no running server. A test compares the pages with the code.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.rows import dict_row

from pagewarden import cli
from pagewarden.auth.embedded import routes
from pagewarden.functions import app
from pagewarden.local import bootstrap, cluster, migrations, server

if TYPE_CHECKING:
    from pagewarden.auth.embedded.service import AuthService

FOLDER = Path(__file__).parents[1] / "docs" / "reference"

RPCS = """
select p.proname as name, pg_get_function_arguments(p.oid) as arguments,
  pg_get_function_result(p.oid) as result, obj_description(p.oid) as comment,
  array(
    select r.rolname::text from aclexplode(p.proacl) as a join pg_roles as r on r.oid = a.grantee
    where r.rolname in ('authenticated', 'service_role', 'pagewarden_worker') order by 1
  ) as callers
from pg_proc as p
where p.pronamespace = 'public'::regnamespace and p.prokind = 'f'
  and not exists (
    select 1 from pg_depend as d
    where d.objid = p.oid and d.deptype = 'e' and d.classid = 'pg_proc'::regclass
  )
order by p.proname
"""
TABLES = """
select c.relname as name, obj_description(c.oid) as comment,
  case c.relkind when 'v' then 'view' else 'table' end as kind
from pg_class as c
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
order by c.relname
"""
_CALLERS = {
    "authenticated": "people",
    "pagewarden_worker": "workers",
    "service_role": "services",
}


def render_database_page(rpcs: list[dict[str, Any]], tables: list[dict[str, Any]]) -> str:
    """Render the page of the database."""
    lines = [
        "# The database",
        "",
        "Written by `scripts/reference.py` from the comments in the database; a test compares",
        "them. Over HTTP each function is `POST /rest/v1/rpc/<name>` on Supabase. Errors of calls",
        "are in [errors](errors.md).",
        "",
        "## Tables and views",
        "",
        "| name | | what it holds |",
        "|---|---|---|",
        *(
            f"| `{row['name']}` | {row['kind']} | {_format_cell(row['comment'])} |"
            for row in tables
        ),
        "",
        "## Functions",
        "",
        "| function | for | |",
        "|---|---|---|",
        *(_format_rpc(row) for row in rpcs),
        "",
    ]
    return "\n".join(lines)


def _format_rpc(row: dict[str, Any]) -> str:
    callers = ", ".join(_CALLERS[name] for name in row["callers"])
    signature = f"{row['name']}({row['arguments']}) → {row['result']}".replace("|", "\\|")
    return f"| `{signature}` | {callers} | {_format_cell(row['comment'])} |"


def _format_cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


def render_routes_page() -> str:
    """Render the page of the routes from the OpenAPI document."""
    application = app.create_app()
    # A server adds these when it starts, unless Supabase signs users in.
    application.include_router(routes.make_router(cast("AuthService", None)))
    document = application.openapi()
    lines = [
        "# Routes",
        "",
        "Written by `scripts/reference.py` from the OpenAPI document (`/openapi.json`, shown",
        "under `/docs`); a test compares them. Refusals are explained in",
        "[functions](functions.md#refusals). The routes below `/jobs` and `/pubsub` are also below",
        "`/functions/v1`, which is their address on hosted Supabase. The routes below `/auth/v1`",
        "exist where Pagewarden signs users in itself. The credentials are the security schemes of",
        "the document: one of them suffices.",
        "",
        "| route | what it does | credentials | answers |",
        "|---|---|---|---|",
    ]
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            statuses = ", ".join(sorted(operation["responses"]))
            callers = ", ".join(_describe_callers(operation["security"]))
            summary = _format_cell(operation["summary"])
            lines.append(f"| `{method.upper()} {path}` | {summary} | {callers} | {statuses} |")
    return "\n".join([*lines, ""])


def _describe_callers(security: list[dict[str, Any]]) -> list[str]:
    """Return the credentials of a route; the empty requirement means that none are needed."""
    names = [", ".join(requirement) or "none" for requirement in security] or ["none"]
    return [name if name == "none" else f"`{name}`" for name in names]


def _get_first_sentence(text: str) -> str:
    return _format_cell(text.split("\n\n", maxsplit=1)[0])


def render_commands_page() -> str:
    """Render the page of the commands from their help."""
    lines = [
        "# Commands",
        "",
        "Written by `scripts/reference.py` from the help of each; a test compares them. Every",
        "command has `--help`.",
        "",
        "Exit codes of all commands: 0 success; 1 a reported failure (also: an alert is open, a",
        "picture needs review, something is missing); 2 invalid arguments, and nothing was done;",
        "130 Ctrl-C.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    for name, found in sorted(cli.COMMANDS.items()):
        lines.append(f"| `pagewarden {name}` | {_format_cell(found.summary)} |")
        loaded = found.load()
        for below, command in sorted(getattr(loaded, "commands", {}).items()):
            line = _get_first_sentence(command.help or "")
            lines.append(f"| `pagewarden {name} {below}` | {_format_cell(line)} |")
    return "\n".join([*lines, ""])


async def render_migrated_page(url: str) -> str:
    """Render the page of a migrated database."""
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as conn:
        rpcs = await (await conn.execute(RPCS)).fetchall()
        tables = await (await conn.execute(TABLES)).fetchall()
    return render_database_page(rpcs, tables)


async def _render_from_new_database(folder: Path) -> str:
    async with server.open_server(folder / "home", durable=False) as local:
        await bootstrap.bootstrap(local.url(cluster.SUPERUSER), password=local.password)
        await migrations.migrate(local.url())
        return await render_migrated_page(local.url(cluster.SUPERUSER))


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pagewarden-reference-") as folder:
        Path(folder).chmod(0o755)  # the server may run as another account
        page = asyncio.run(_render_from_new_database(Path(folder)))
    (FOLDER / "database.md").write_text(page, "utf-8")
    (FOLDER / "routes.md").write_text(render_routes_page(), "utf-8")
    (FOLDER / "commands.md").write_text(render_commands_page(), "utf-8")


if __name__ == "__main__":
    main()
