"""Tell whether a picture has the text it should have, in the language it should be in.

Pure functions over what was read: no database, no network, no files.
"""
