"""Foreign text cannot break or fool a terminal."""

import pytest

from knowledge.interfaces.cli.printable import one_line, printable


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("a\\nb", "a\nb"),
        ("a\\r\\tb", "a\r\tb"),
        ("\\x1b[2J\\x1b]0;owned\\x07", "\x1b[2J\x1b]0;owned\x07"),
        ("\\x9b31m", "\x9b31m"),
        ("invoice\\u202efdp.exe", "invoice\u202efdp.exe"),
        ("\\u2066\\u2069\\u200e\\ufeff", "\u2066\u2069\u200e\ufeff"),
        ("a\\u2028b\\u2029", "a\u2028b\u2029"),
        ("caf\\udce9.txt", "caf\udce9.txt"),
        ("\\x00", "\0"),
        ("\\U000e0041", "\U000e0041"),
        ("[bold]x[/bold] :smile:", "[bold]x[/bold] :smile:"),
        ("松屿 Rück café עברית", "松屿 Rück café עברית"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
    ],
)
def test_control_and_direction_characters_are_escaped_and_writing_is_not(expected, text):
    """Whatever moves the cursor, reverses text or is no character is shown by its number; every script is left alone."""
    assert expected == printable(text)


def test_every_character_prints_as_one_line_that_the_stream_can_take():
    """No code point becomes a line break, a control character, or something that UTF-8 cannot encode."""
    shown = "".join(printable(chr(number)) for number in range(0x110000))

    assert 1 == len(shown.splitlines())
    assert shown.encode()


def test_running_text_is_one_line():
    """White space of a passage collapses; an escape in it stays visible."""
    assert "a b c \\x1bd" == one_line("  a\n\n b\tc \x1bd ")
