#!/usr/bin/env python3
"""Print the part of requirements.lock that scripts/setup installs, with its hashes.

    python3 scripts/locked_requirements.py all | up | PACKAGE ...

`all` is the whole lock, `up` what the product needs at run time, and any other word one package
without its dependencies. Uses the standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Extras for developers; every other extra belongs to the product.
DEVELOPER_EXTRAS = {"bench", "dev"}

# An editable installation needs these beside what [build-system] names; uv installs the rest.
SETUP_TOOLS = {"editables", "uv"}


def main(selections: list[str]) -> None:
    """Print the selected entries of the lock."""
    entries = read_entries((ROOT / "requirements.lock").read_text())
    names: set[str] = set()
    for selection in selections:
        names |= select_packages(selection, entries)
    selected = (text for name, texts in entries.items() if name in names for text in texts)
    sys.stdout.write("\n".join(selected) + "\n")


def select_packages(selection: str, entries: dict[str, list[str]]) -> set[str]:
    """Return the packages of a selection."""
    if selection == "all":
        return set(entries)
    return find_product_packages(entries) if selection == "up" else {normalize(selection)}


def read_entries(lock: str) -> dict[str, list[str]]:
    """Return the entries of each package: several, if its version depends on the Python version."""
    entries: dict[str, list[str]] = {}
    for text in re.split(r"\n(?=\w)", lock.strip()):
        entries.setdefault(normalize(text), []).append(text)
    return entries


def find_product_packages(entries: dict[str, list[str]]) -> set[str]:
    """Return the packages that the product needs, directly or through others.

    The lock names under `via` the packages that require an entry.
    """
    needed = {name for name in read_product_requirements() if name in entries}
    while more := {
        name
        for name, texts in entries.items()
        if name not in needed and not needed.isdisjoint(find_dependencies(texts))
    }:
        needed |= more
    return needed


def read_product_requirements() -> set[str]:
    """Return the names of pyproject.toml that the product or its installation needs."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    requirements = [*project["dependencies"], *document["build-system"]["requires"]]
    for extra, names in project.get("optional-dependencies", {}).items():
        if extra not in DEVELOPER_EXTRAS:
            requirements += names
    return {normalize(requirement) for requirement in requirements} | SETUP_TOOLS


def find_dependencies(texts: list[str]) -> set[str]:
    """Return the packages that require an entry."""
    comments = "\n".join(re.findall(r"^ +#(?: +via)?(.*)", "\n".join(texts), re.MULTILINE))
    return {normalize(line) for line in comments.split("\n") if line.strip()}


def normalize(requirement: str) -> str:
    """Return the package name of a requirement, as the lock spells it."""
    name = re.match(r"[\w.-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


if __name__ == "__main__":
    main(sys.argv[1:])
