"""Texts that people and other programs wrote: the encodings of files, and characters that look like others."""

from __future__ import annotations

import codecs
import re
import unicodedata
from pathlib import Path

from quartzpy.errors import InvalidValueError, SettingsError

# The longer ones first: UTF-16's is the beginning of UTF-32's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_LINE = re.compile(r"\(at line ([0-9]+),")
_MEANT = {"Zs": "a space", "Pd": "a hyphen, -", "Zl": "a line break", "Zp": "a line break"}


def decoded(content: bytes, name: str, error: type[InvalidValueError] = SettingsError) -> str:
    """Return the text of a file in UTF-8, without the mark (BOM) with which some editors begin one.

    `name` opens the message of an error.

    Raises:
        SettingsError (or `error`): it is in another encoding; the message names the file, and what to do.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            raise error(f"{name}: it is in {encoding}; save it as UTF-8 (in PowerShell: Out-File -Encoding utf8)")
    if content[:2].count(0) == 1:
        raise error(f"{name}: it has NUL characters, as UTF-16 without a mark has; save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise error(f"{name}: it is not UTF-8 ({wrong.reason} at byte {wrong.start}); save it as UTF-8") from None


def read_text_file(path: Path) -> str:
    """Return the text of a file. Raises SettingsError if it cannot be read, or as `decoded`."""
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error


def look_alike(text: str) -> tuple[int, str] | None:
    """Return the first character that is invisible or looks like one of ASCII, as its place and what to write.

    A no-break space, a zero-width space and a dash are such, and arrive by copying from pages and chats.
    """
    if text.isascii():
        return None
    for place, character in enumerate(text):
        if character.isascii():
            continue
        category, plain = unicodedata.category(character), unicodedata.normalize("NFKC", character)
        meant = _MEANT.get(category)
        if character in "\u2212\ufe63":
            meant = _MEANT["Pd"]
        elif character in "\u2217\u204e\u2731":
            meant = "*"
        elif category in ("Cf", "Cc"):
            meant = "nothing there"
        elif category in ("Pi", "Pf"):
            meant = "a plain quotation mark"
        elif meant is None and len(plain) == 1 and plain.isascii():
            meant = plain
        if meant is not None:
            name = unicodedata.name(character, "CONTROL CHARACTER")
            return place, f"character {place + 1} is U+{ord(character):04X} ({name}); write {meant}"
    return None


def alike_in_line(text: str, error: ValueError) -> str:
    """Return what `look_alike` says of the line that an error of the TOML reader names, as the end of a message."""
    match = _LINE.search(str(error))
    lines = text.splitlines()
    if match is None or int(match[1]) > len(lines):
        return ""
    alike = look_alike(lines[int(match[1]) - 1])
    return "" if alike is None else f"; {alike[1]}"
