"""A database of another schema is refused by whatever would use it, before anything is changed."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic
import pytest

from pagewarden import errors
from pagewarden.local import catalog, cluster, doctor, migrations, schema_digests, stack
from pagewarden.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import databases

OLD = "create table public.kept (id int);"
NEW = "create table public.kept (id bigint);"


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a folder that the account of the server can reach."""
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Make a folder of migrations for each of two versions."""
    folders = {text: tmp_path / name / "migrations" for text, name in ((OLD, "old"), (NEW, "new"))}
    for text, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "20250101000000_kept.sql").write_text(text)
    return folders


@pytest.fixture
async def _digests(folders: dict[str, Path], bare_database: databases.Database) -> None:
    for folder in folders.values():
        content = await migrations.measure(bare_database.url(), folder=folder)
        (folder.parent / schema_digests.NAME).write_text(content)


@pytest.mark.usefixtures("_digests")
async def test_the_embedded_database_of_another_schema_is_refused(
    home: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way out is another folder; with the old program everything is still there."""
    monkeypatch.setattr(migrations, "own_folder", lambda: folders[OLD])
    async with stack.ready(Settings(home=home)) as found:
        assert found.applied == ["20250101000000_kept"]

    monkeypatch.setattr(migrations, "own_folder", lambda: folders[NEW])
    with pytest.raises(errors.DatabaseError, match=r"made by Pagewarden.*set PAGEWARDEN_HOME"):
        async with stack.ready(Settings(home=home)):
            pass

    findings = [finding async for finding in doctor.examine(Settings(home=home))]
    assert findings[-1].subject == "Migrations"
    assert "set PAGEWARDEN_HOME" in findings[-1].remedy

    monkeypatch.setattr(migrations, "own_folder", lambda: folders[OLD])
    async with stack.ready(Settings(home=home)) as found:
        assert found.news == "up to date"


@pytest.mark.usefixtures("_digests")
async def test_a_named_database_of_another_schema_is_refused_before_it_is_prepared(
    folders: dict[str, Path], bare_database: databases.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the bootstrap, which has a reason here, would say that it needs a superuser."""
    chosen = Settings(database_url=pydantic.SecretStr(bare_database.url()))
    monkeypatch.setattr(migrations, "own_folder", lambda: folders[OLD])
    async with stack.ready(chosen) as found:
        assert found.applied == ["20250101000000_kept"]
    conn = await bare_database.connect(cluster.SUPERUSER)
    await conn.execute("comment on schema auth is 'not prepared'")

    monkeypatch.setattr(migrations, "own_folder", lambda: folders[NEW])
    with pytest.raises(errors.DatabaseError, match=r"another database in PAGEWARDEN_DATABASE_URL"):
        async with stack.ready(chosen):
            pass


@pytest.mark.parametrize("content", ["", "[]", '{"migrations": [{}]}', "{"])
def test_a_broken_digest_file_is_named(tmp_path: Path, content: str) -> None:
    """The remedy is to make it again."""
    (tmp_path / schema_digests.NAME).write_text(content)
    with pytest.raises(errors.SettingsError, match=r'schema\.digest.*run "make generate"'):
        schema_digests.load(tmp_path / "migrations", [OLD])


def test_digests_count_as_far_as_the_files_are_unchanged(tmp_path: Path) -> None:
    """A file that changed makes those after it unknown, too."""
    scripts = ["one", "two", "three"]
    texts = schema_digests.hash_texts(scripts)[1:]
    digests = [catalog.Digest(name, "") for name in scripts]
    content = schema_digests.dump(scripts, texts, digests, {"public.one"})
    (tmp_path / schema_digests.NAME).write_text(content)
    folder = tmp_path / "migrations"

    assert schema_digests.load(folder, scripts).digests == [None, *digests]
    assert schema_digests.load(folder, scripts).objects == {"public.one"}
    changed = schema_digests.load(folder, ["one", "2", "three"])
    assert changed.digests == [None, digests[0], None, None]
    assert not changed.is_complete
    assert changed.objects == frozenset()
    assert not schema_digests.load(folder, scripts[:2]).objects
