"""Numbers as a sheet shows them."""

import pytest

from knowledge.pipeline.readers.number_formats import Kind, kind_of, shown


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("General", Kind.NUMBER),
        ("0.00", Kind.NUMBER),
        ("#,##0.00_);[Red](#,##0.00)", Kind.NUMBER),
        ('0.0" days"', Kind.NUMBER),
        ("0.00E+00", Kind.NUMBER),
        ("@", Kind.NUMBER),
        ('"Summe" 0', Kind.NUMBER),
        ("[$-409]d-mmm-yy;@", Kind.DAY),
        ("yyyy\\-mm\\-dd", Kind.DAY),
        ("dd/mm/yyyy", Kind.DAY),
        ("mmmm", Kind.DAY),
        ('yyyy"年"m"月"d"日"', Kind.DAY),
        ("[$-411]ge.m.d", Kind.DAY),
        ("h:mm AM/PM", Kind.CLOCK),
        ("mm:ss.0", Kind.CLOCK),
        ("[h]:mm:ss", Kind.ELAPSED),
        ("dd.mm.yyyy hh:mm", Kind.MOMENT),
        ("0%", Kind.PERCENT),
        ("[Red]0.0%", Kind.PERCENT),
    ],
)
def test_code_tells_what_is_shown(code, kind):
    """Words in quotes, colours and fillers do not count."""
    assert kind is kind_of(164, code)


@pytest.mark.parametrize(
    ("number", "kind"), [(0, Kind.NUMBER), (9, Kind.PERCENT), (14, Kind.DAY), (22, Kind.MOMENT), (57, Kind.DAY)]
)
def test_numbers_of_formats_are_known_without_a_code(number, kind):
    """Files do not spell out what is built in."""
    assert kind is kind_of(number, None)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (225.0, Kind.NUMBER, "225"),
        (-0.5, Kind.NUMBER, "-0.5"),
        (0.1 + 0.2, Kind.NUMBER, "0.3"),
        (6779.07, Kind.NUMBER, "6779.07"),
        (1e20, Kind.NUMBER, "1e+20"),
        (123456789012345.0, Kind.NUMBER, "123456789012345"),
        (float("nan"), Kind.NUMBER, "#NUM!"),
        (0.15, Kind.PERCENT, "15%"),
        (0.0725, Kind.PERCENT, "7.25%"),
        (45292.0, Kind.DAY, "2024-01-01"),
        (45292.75, Kind.DAY, "2024-01-01"),
        (45292.75, Kind.MOMENT, "2024-01-01 18:00"),
        (45292.750011574, Kind.MOMENT, "2024-01-01 18:00:01"),
        (0.5, Kind.CLOCK, "12:00"),
        (1.5, Kind.ELAPSED, "36:00:00"),
        (1.0, Kind.DAY, "1900-01-01"),
        (59.0, Kind.DAY, "1900-02-28"),
        (61.0, Kind.DAY, "1900-03-01"),
        (-1.0, Kind.DAY, "-1"),
        (2_958_466.0, Kind.DAY, "2958466"),
    ],
)
def test_value_is_shown_as_in_the_sheet(value, kind, text):
    """Days by the calendar, percent by hundreds, numbers without the noise of binary fractions; nonsense as a number."""
    assert text == shown(value, kind)


def test_days_from_1904():
    """Sheets made on old Macintoshes count from another day."""
    assert "2000-01-01" == shown(35064.0, Kind.DAY, is_1904=True)


def test_last_day_is_a_day():
    """No date of either calendar runs over the end of time."""
    assert "9999-12-31" == shown(2_958_465.0, Kind.DAY)
    assert shown(2_958_465.9999999, Kind.MOMENT)
    assert "2958465" == shown(2_958_465.0, Kind.DAY, is_1904=True)
    assert "9999-12-31" == shown(2_957_003.0, Kind.DAY, is_1904=True)
