"""The file supabase/schema.digest: the schema of an empty database after each migration.

With it the runner recognises the schema of these migrations even if files were renamed or merged,
or have other comments. `make generate` writes it. For each migration it has a hash of the files so
far, because a digest is valid only while they are unchanged, and the digest of the database; at the
end, the names of all objects.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pagewarden import errors
from pagewarden.local.catalog import DatabaseDigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

NAME = "schema.digest"


@dataclass(frozen=True, slots=True)
class SchemaDigests:
    """The known digests of a list of migrations.

    digests[n] is that of the database after n migrations, or None if the file is out of date.
    texts[n] is a hash of the first n files. objects is empty unless all digests are known.
    """

    texts: list[str]
    digests: list[DatabaseDigest | None]
    objects: frozenset[str]

    @property
    def is_complete(self) -> bool:
        """Whether the file is up to date."""
        return None not in self.digests[1:]


def hash_prefixes(scripts: Iterable[str]) -> list[str]:
    """Hash the first 0, 1, 2, … scripts."""
    hashes = [""]
    for script in scripts:
        hashes.append(hashlib.sha256(f"{hashes[-1]}{script}".encode()).hexdigest())
    return hashes


def load(folder: Path, scripts: Iterable[str]) -> SchemaDigests:
    """Read the file beside the folder of these migrations, if there is one."""
    texts = hash_prefixes(scripts)
    path = folder.parent / NAME
    try:
        content = json.loads(path.read_text("utf-8")) if path.exists() else None
        known = {} if content is None else _parse_digests(content)
        objects = [] if content is None else content["objects"]
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise errors.SettingsError(f'{path} cannot be read; run "make generate"') from exc
    digests = [None, *(known.get(text) for text in texts[1:])]
    is_complete = len(known) == len(texts) - 1 and None not in digests[1:]
    return SchemaDigests(texts, digests, frozenset(objects) if is_complete else frozenset())


def _parse_digests(content: dict[str, list[dict[str, str]]]) -> dict[str, DatabaseDigest]:
    return {
        line["texts"]: DatabaseDigest(schema=line["schema"], rows=line["rows"])
        for line in content["migrations"]
    }


def dump(
    labels: Sequence[str],
    texts: Sequence[str],
    digests: Sequence[DatabaseDigest],
    objects: Iterable[str],
) -> str:
    """Return the content of the file; texts and digests are those after each migration."""
    migrations = [
        {"name": label, "texts": text, **asdict(digest)}
        for label, text, digest in zip(labels, texts, digests, strict=True)
    ]
    content = {"migrations": migrations, "objects": sorted(objects)}
    return json.dumps(content, indent=1) + "\n"
