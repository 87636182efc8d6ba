"""switchboard: which functions there are, and who calls them."""

from __future__ import annotations

import pytest

from functions import app, switchboard
from pagewarden import errors


def test_every_function_that_is_mounted_has_a_table() -> None:
    """What nobody could deploy to Supabase is not served either."""
    assert {function.NAME for function in app.FUNCTIONS} == switchboard.names()


def test_people_call_some_functions_and_services_the_others() -> None:
    """Only what people call wants a user's token."""
    for_people = {name for name in switchboard.names() if switchboard.wants_user_jwt(name)}
    assert for_people == {"upload-to-dropbox", "documents", "jobs"}


@pytest.mark.parametrize("name", ["relay", "nonsense", ""])
def test_what_is_no_function_has_no_door(name: str) -> None:
    """A name without a table is a mistake of ours, and says how to mend it."""
    with pytest.raises(errors.SettingsError, match=rf"no table \[functions\.{name}\]"):
        switchboard.wants_user_jwt(name)
