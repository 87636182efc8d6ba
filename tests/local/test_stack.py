"""A database with another schema is refused before anything is changed."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pydantic
import pytest

from pagewarden import errors
from pagewarden.cli import doctor
from pagewarden.local import catalog, cluster, migrations, schema_digests, stack
from pagewarden.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import databases

OLD = "create table public.kept (id int);"
NEW = "create table public.kept (id bigint);"


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder that the server's account can enter."""
    home = Path(tempfile.gettempdir()) / f"pagewarden-{uuid.uuid4().hex[:12]}"
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Create a folder of migrations for each of two versions."""
    folders = {text: tmp_path / name / "migrations" for text, name in ((OLD, "old"), (NEW, "new"))}
    for text, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "20250101000000_kept.sql").write_text(text)
    return folders


@pytest.fixture
async def _digests(folders: dict[str, Path], bare_database: databases.Database) -> None:
    for folder in folders.values():
        content = await migrations.compute_digests(bare_database.url(), folder=folder)
        (folder.parent / schema_digests.NAME).write_text(content)


@pytest.mark.usefixtures("_digests")
async def test_embedded_database_with_another_schema_is_refused(
    home: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error suggests another folder; the old program still works with this one."""
    monkeypatch.setattr(migrations, "default_folder", lambda: folders[OLD])
    async with stack.open_migrated(Settings(home=home)) as database:
        assert database.applied == ["20250101000000_kept"]

    monkeypatch.setattr(migrations, "default_folder", lambda: folders[NEW])
    with pytest.raises(errors.DatabaseError, match=r"created by Pagewarden.*set PAGEWARDEN_HOME"):
        async with stack.open_migrated(Settings(home=home)):
            pass

    findings = [finding async for finding in doctor.run_checks(Settings(home=home))]
    assert findings[-1].subject == "Migrations"
    assert "set PAGEWARDEN_HOME" in findings[-1].remedy

    monkeypatch.setattr(migrations, "default_folder", lambda: folders[OLD])
    async with stack.open_migrated(Settings(home=home)) as database:
        assert database.summary == "up to date"


@pytest.mark.usefixtures("_digests")
async def test_configured_database_with_another_schema_is_refused_before_the_bootstrap(
    folders: dict[str, Path], bare_database: databases.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the bootstrap, which is needed here, would fail without a superuser."""
    settings = Settings(database_url=pydantic.SecretStr(bare_database.url()))
    monkeypatch.setattr(migrations, "default_folder", lambda: folders[OLD])
    async with stack.open_migrated(settings) as database:
        assert database.applied == ["20250101000000_kept"]
    conn = await bare_database.connect(cluster.SUPERUSER)
    await conn.execute("comment on schema auth is 'not prepared'")

    monkeypatch.setattr(migrations, "default_folder", lambda: folders[NEW])
    with pytest.raises(
        errors.DatabaseError, match=r"set PAGEWARDEN_DATABASE_URL to another database"
    ):
        async with stack.open_migrated(settings):
            pass


@pytest.mark.parametrize("content", ["", "[]", '{"migrations": [{}]}', "{"])
def test_invalid_digest_file_is_named_in_the_error(tmp_path: Path, content: str) -> None:
    """The error says how to create it again."""
    (tmp_path / schema_digests.NAME).write_text(content)
    with pytest.raises(errors.SettingsError, match=r'schema\.digest.*run "make generate"'):
        schema_digests.load(tmp_path / "migrations", [OLD])


def test_digests_are_valid_up_to_the_first_changed_file(tmp_path: Path) -> None:
    """The digests of a changed file and of later files are unknown."""
    scripts = ["one", "two", "three"]
    texts = schema_digests.hash_prefixes(scripts)[1:]
    digests = [catalog.DatabaseDigest(name, "") for name in scripts]
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
