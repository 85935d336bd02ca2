"""JSON as lines."""

from typing import ClassVar

import pytest

from knowledge.errors import CorruptSource
from knowledge.model.status import Notice
from knowledge.pipeline.readers.json import JsonReader
from knowledge.pipeline.readers.registry import ReaderRegistry
from tests.contracts.reader_contract import ReaderContract


class TestJsonReader(ReaderContract):
    reader = JsonReader
    samples: ClassVar = {
        "object.json": (
            '{"name": "Zoë", "address": {"city": "北京", "no": 1.50}, "tags": ["a", "b"], "on": true, "off": null}'.encode(),
            ("name: Zoë", "address.city: 北京", "address.no: 1.50", "tags: a\ntags: b", "on: true"),
        ),
        "list.json": (b'[{"a": "one"}, {"a": "two"}, 3]', ("a: one", "a: two", "3")),
        "words.json": (b'["alpha", "beta"]', ("alpha\nbeta",)),
        "scalar.json": (b'"just a word"', ("just a word",)),
        "lines.jsonl": (b'{"a": "one"}\n\n{"b": "two"}\n', ("a: one", "b: two")),
        "lines.json": (b'{"a": "one"}\n{"b": "two"}\n', ("a: one", "b: two")),
        "wide.json": ('{"k": "ü"}'.encode("utf-16"), ("k: ü",)),
    }


@pytest.fixture
def read(tmp_path):
    def read(data):
        (tmp_path / "a.json").write_bytes(data)
        return [one.text for one in ReaderRegistry([JsonReader()]).read(tmp_path / "a.json", "a.json", lambda: None).documents]

    return read


def test_each_object_of_a_list_is_a_document(read):
    """So that no chunk tears one apart for the next; a list of plain words is one text."""
    assert ["a: 1", "a: 2"] == read(b'[{"a": 1}, {"a": 2}]')
    assert ["1\n2"] == read(b"[1, 2]")


@pytest.mark.parametrize("data", [b'{"a": ', b"{'a': 1}", b"[1, 2", b"words", b'{"a": 1} x', b"[" * 200_000])
def test_invalid_json_is_corrupt(read, data):
    """What cannot be parsed is not indexed as something else."""
    with pytest.raises(CorruptSource):
        read(data)


def test_numbers_are_shown_as_written(read):
    """An id of forty digits and a price keep every digit."""
    assert ["id: 1234567890123456789012345678901234567890\nprice: 1.10"] == read(
        b'{"id": 1234567890123456789012345678901234567890, "price": 1.10}'
    )


def test_escaped_lone_surrogate_is_replaced(read):
    """JSON can name characters that cannot be stored."""
    assert ["a: \ufffd\ufffd"] == read(b'{"a": "\\ud800\\u0000"}')


def test_each_line_of_json_lines_is_a_document(tmp_path):
    """A damaged line is told and does not cost the others."""
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\r\n[2, 3]\n{"a": \n"four"\n')

    result = ReaderRegistry([JsonReader()]).read(tmp_path / "a.jsonl", "a.jsonl", lambda: None)

    assert ["a: 1", "2\n3", "four"] == [document.text for document in result.documents]
    assert {Notice.PARTIAL_TEXT} == result.notices


@pytest.mark.parametrize(
    "data",
    [
        b'// settings\n{"a": "one", "list": ["x", "y",], /* more\n*/ "b": "two",}\n',
        b'{"a": "one", // c\n "list": ["x", "y"], "b": "two"}',
        b'/**/{"a": "one", "list": ["x", "y" /* , */ , ], "b": "two"}//',
    ],
)
def test_comments_and_commas_too_many_are_forgiven(read, data):
    """Programs keep their settings so; what looks like either inside a text stays."""
    assert ["a: one\nlist: x\nlist: y\nb: two"] == read(data)
    assert ['url: https://a.test/*x*/ ,]\nq: "//'] == read(b'{"url": "https://a.test/*x*/ ,]", "q": "\\"//",}')


def test_values_one_after_another_are_records(read):
    """As tools print them, over several lines each."""
    assert ["a: one", "b: two", "c"] == read(b'{\n "a": "one"\n}\n{\n "b": "two"\n}["c"]\n')


BROKEN = [b'{"a": 1', b'{"a": 1} x', b"1 2", b"{a: 1}", b"/* {}", b'{"a": 1}{"b": ', b"// only words", b",", b'{"a": 1} /* x']


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_not_whole_is_damage_all_the_same(read, data):
    """Forgiving is no guessing."""
    with pytest.raises(CorruptSource):
        read(data)


@pytest.mark.parametrize(
    "data", [b'["' + b'\\"x' * 400_000, b"/* " * 400_000, b'[{"a": "' + b'<b class=\\"c\\">' * 80_000, b"[1," * 9]
)
def test_what_nothing_closes_is_looked_for_once(read, data):
    """A megabyte that was cut off took hours: each later quote began the search again."""
    with pytest.raises(CorruptSource):
        read(data)


@pytest.mark.parametrize("data", [b'[{"a": 1}, /* c */ {"a": 2},]', b'[{"a": 1}, {"a": 2}] // c', b'[{"a":1},{"a":2}]'])
def test_elements_are_records_with_and_without_comments(read, data):
    assert ["a: 1", "a: 2"] == read(data)


def test_key_that_is_there_twice_loses_no_value(read):
    """In the order of the file, next to its first."""
    assert ["a: 1\na.b: 2\na: 3\nc: 4"] == read(b'{"a": 1, "c": 4, "a": {"b": 2}, "a": [3]}')


def test_line_breaks_inside_of_texts_are_forgiven(read):
    """As exports write them that escape nothing."""
    assert ["a: one\ttwo\nthree\nb: x"] == read(b'{"a": "one\ttwo\nthree", "b": "x"}')
