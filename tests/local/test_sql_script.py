"""SQL scripts are split into statements with their line numbers."""

from __future__ import annotations

import pytest

from pagewarden.local import sql_script


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        ("  \n-- only a comment; really\n", []),
        ("select 1", ["select 1"]),
        ("select 1;;\nselect 2;\n", ["select 1", "select 2"]),
        ("select ';', 'it''s;';select 2", ["select ';', 'it''s;'", "select 2"]),
        (r"select E'\';', e'a'';';select 2", [r"select E'\';', e'a'';'", "select 2"]),
        (r"select 'c:\';select 2", [r"select 'c:\'", "select 2"]),
        ('select ";""";select 2', ['select ";"""', "select 2"]),
        ("do $$ begin; end; $$;select 2", ["do $$ begin; end; $$", "select 2"]),
        ("do $a$ x; $$ y; $b$ $a$;select 2", ["do $a$ x; $$ y; $b$ $a$", "select 2"]),
        ("select a$b$c;select $1;", ["select a$b$c", "select $1"]),
        ("/* a; /* b; */ c; */ select 1;select 2", ["/* a; /* b; */ c; */ select 1", "select 2"]),
        ("select 1 -- no; \n + 1;select 2", ["select 1 -- no; \n + 1", "select 2"]),
        (
            "create function f() begin atomic select case a when 1 then 2 end; end;select 3",
            ["create function f() begin atomic select case a when 1 then 2 end; end", "select 3"],
        ),
        (
            "begin; select case when a then 1 end; end;",
            ["begin", "select case when a then 1 end", "end"],
        ),
    ],
)
def test_split_cuts_at_semicolons_that_end_a_statement(script: str, expected: list[str]) -> None:
    """Semicolons in strings, names, comments and bodies do not cut."""
    assert [statement.text for statement in sql_script.split(script)] == expected


def test_line_is_counted_in_the_script() -> None:
    """A statement begins at its first word; a position is counted from its comments on."""
    first, second = sql_script.split("\nselect 1;\n\n-- why\nselect\n  2;")

    assert first.find_line(None) == 2
    assert second.find_line(None) == 5
    assert second.find_line(len("-- why\nselect\n  2")) == 6
