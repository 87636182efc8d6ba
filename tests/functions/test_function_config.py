"""switchboard: which functions there are, and who calls them."""

from __future__ import annotations

import pytest

from pagewarden import errors
from pagewarden.functions import app
from pagewarden.functions.http import function_config


def test_every_function_that_is_mounted_has_a_table() -> None:
    """What nobody could deploy to Supabase is not served either."""
    assert {function.NAME for function in app.FUNCTIONS} == function_config.list_functions()


def test_people_call_some_functions_and_services_the_others() -> None:
    """Only functions that people call require a user token."""
    for_people = {
        name
        for name in function_config.list_functions()
        if function_config.requires_user_token(name)
    }
    assert for_people == {"upload-to-dropbox", "documents", "jobs"}


@pytest.mark.parametrize("name", ["relay", "nonsense", ""])
def test_what_is_no_function_has_no_door(name: str) -> None:
    """A name without a table is a mistake of ours, and says how to mend it."""
    with pytest.raises(errors.SettingsError, match=rf"no \[functions\.{name}\] table; add it"):
        function_config.requires_user_token(name)
