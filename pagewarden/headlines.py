"""Headlines of search_documents: a part of a text in which what was found is marked «so»."""

from __future__ import annotations


def pieces(headline: str) -> list[tuple[bool, str]]:
    """Take a headline apart: whether it is a hit, and the text."""
    found = []
    for piece in headline.split("«"):
        hit, mark, rest = piece.partition("»")
        found += [(True, hit), (False, rest)] if mark else [(False, piece)]
    return [(is_hit, text) for is_hit, text in found if text]
