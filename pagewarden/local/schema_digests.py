"""The file supabase/schema.digest: what each migration makes of an empty database.

It lets the runner tell whether a database has the schema of these migrations, although their files
were renamed, merged or commented differently. `make generate` writes it. For each migration it has
a hash of the file, so that a digest counts only as long as that file and those before it are
unchanged, and the digest of the database after it. The names are those of all objects in the end.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.local.catalog import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

NAME = "schema.digest"


@dataclass(frozen=True, slots=True)
class SchemaDigests:
    """What is known of a list of migrations.

    digests[n] belongs to the database after n migrations; it is None where the file is not up to
    date. texts[n] is a hash of the first n files. objects is empty unless all digests are known.
    """

    texts: list[str]
    digests: list[Digest | None]
    objects: frozenset[str]

    @property
    def is_complete(self) -> bool:
        """Whether the file is up to date."""
        return None not in self.digests[1:]


def hash_texts(scripts: Iterable[str]) -> list[str]:
    """Hash the first 0, 1, 2, … scripts."""
    hashes = [""]
    for script in scripts:
        hashes.append(hashlib.sha256(f"{hashes[-1]}{script}".encode()).hexdigest())
    return hashes


def load(folder: Path, scripts: Iterable[str]) -> SchemaDigests:
    """Read the file that stands beside the folder of these migrations, if there is one."""
    texts = hash_texts(scripts)
    path = folder.parent / NAME
    try:
        content = json.loads(path.read_text("utf-8")) if path.exists() else None
        known = {} if content is None else _known(content)
        objects = [] if content is None else content["objects"]
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise errors.SettingsError(f'{path} cannot be read; run "make generate"') from exc
    digests = [None, *(known.get(text) for text in texts[1:])]
    is_complete = len(known) == len(texts) - 1 and None not in digests[1:]
    return SchemaDigests(texts, digests, frozenset(objects) if is_complete else frozenset())


def _known(content: dict[str, list[dict[str, str]]]) -> dict[str, Digest]:
    return {
        line["texts"]: Digest(schema=line["schema"], rows=line["rows"])
        for line in content["migrations"]
    }


def dump(
    labels: Sequence[str], texts: Sequence[str], digests: Sequence[Digest], objects: Iterable[str]
) -> str:
    """Make the content of the file; texts and digests are those after each migration."""
    migrations = [
        {"name": label, "texts": text, **asdict(digest)}
        for label, text, digest in zip(labels, texts, digests, strict=True)
    ]
    content = {"migrations": migrations, "objects": sorted(objects)}
    return json.dumps(content, indent=1) + "\n"
