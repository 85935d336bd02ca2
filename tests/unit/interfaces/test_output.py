"""Tables and records for people, on terminals of several widths and in pipes."""

import io
import re
from datetime import UTC, datetime

import pytest

from knowledge.interfaces.cli import output as output_module
from knowledge.interfaces.cli.output import Output, clock, detail

ID = "01938c2e-7d1f-7a30-9b57-3d0c1f2a4b5c"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
LONG = "a/very/long/path/" * 12 + "file.md"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def printed(monkeypatch):
    """Prints a table as on a terminal of that width (None: a pipe) and returns its lines."""

    def table(width, rows):
        stream = Terminal() if width else io.StringIO()
        monkeypatch.setattr(output_module.sys, "stdout", stream)
        if width:
            monkeypatch.setenv("COLUMNS", str(width))
            monkeypatch.setenv("LINES", "40")
        Output().table(("ID", "STATUS", "NAME"), rows)
        return stream.getvalue().splitlines()

    return table


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_terminal_gets_lines_that_fit_with_whole_ids(printed, width):
    """Each row is one line; what is cut is the name, never the id that has to be copied."""
    lines = printed(width, [(ID, "completed", LONG)])

    assert 2 == len(lines)
    assert ID in lines[1]
    assert "completed" in lines[1]
    assert width >= max(len(ESCAPE.sub("", line)) for line in lines)
    assert lines[1].endswith("/file.md")
    assert "…" in lines[1]


def test_a_narrow_terminal_gets_records(printed):
    """Where a table of ids cannot be read, each row becomes lines of name and value."""
    lines = printed(40, [(ID, "completed", "a.md")])

    assert [f"ID      {ID}", "STATUS  completed", "NAME    a.md", ""] == lines


def test_a_pipe_gets_everything(printed):
    """Nothing is cut from what another program reads."""
    lines = printed(None, [(ID, "completed", LONG)])

    assert LONG in lines[1]


def test_a_row_stays_one_line_whatever_its_name(printed):
    """Line breaks, escapes, markup and wide characters in a name do not break the table."""
    lines = printed(100, [(ID, "completed", "a\nb\x1b[2J[red]x[/red]"), (ID, "failed", "松屿/灯器保养手册.md")])

    assert 3 == len(lines)
    assert "a\\nb\\x1b[2J[red]x[/red]" in lines[1]
    assert lines[2].endswith("松屿/灯器保养手册.md")


def test_an_empty_table_prints_nothing(printed):
    """No header without rows."""
    assert [] == printed(80, [])


def test_json_is_one_ascii_line(capsys):
    """Any terminal, any locale and any parser can take it."""
    Output(as_json=True).answer({"name": "松屿\u202e"}, lambda out: out.line("for people"))

    assert '{"name": "\\u677e\\u5c7f\\u202e"}\n' == capsys.readouterr().out


def test_hints_are_silent_with_json(capsys):
    """stderr belongs to errors then."""
    Output(as_json=True).hint("accepted")

    assert ("", "") == capsys.readouterr()


def test_a_detail_is_written_as_people_write():
    """Lists, pairs and what is not known do not look like a program's."""
    shown = detail({"ids": ["a", "b"], "skipped": {"empty": 1}, "path": None})

    assert "ids=a, b, skipped=empty 1" == shown


def test_a_moment_shows_seconds_where_they_matter():
    """Jobs are short."""
    when = datetime(2026, 3, 1, 9, 30, 7, tzinfo=UTC)

    assert (16, ":07") == (len(clock(when)), clock(when, seconds=True)[-3:])
