"""Frontmatter goes on and comes off without a trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.pipeline.snapshot import Frontmatter, serialise, strip


def test_block_has_json_quoted_values_in_fixed_order():
    """The written form is stable, and absent keys are left out."""
    frontmatter = Frontmatter(type="URL", title='a "b": #c\n---', resource="https://x/", timestamp="2024-01-02T03:04:05Z")

    assert (
        '---\ntype: "URL"\ntitle: "a \\"b\\": #c\\n---"\nresource: "https://x/"\ntimestamp: "2024-01-02T03:04:05Z"\n---\nbody'
        == serialise(frontmatter, "body")
    )


@given(st.text(), st.text())
def test_strip_undoes_serialise(title, body):
    """Whatever the title and the body hold, the body comes back."""
    assert body == strip(serialise(Frontmatter(type="Note", title=title), body))


@pytest.mark.parametrize("body", ["---\nnot ours\n---\nx", "", "\n---\n", "---"])
def test_body_that_looks_like_frontmatter_survives(body):
    """Only the first block goes."""
    assert body == strip(serialise(Frontmatter(type="Note", title="t"), body))


@pytest.mark.parametrize("text", ["# no block", "---\nopen: 1\n", "--- \na: 1\n---\n", "---\nopen: 1\n---", " ---\n---\n"])
def test_text_without_a_closed_block_is_unchanged(text):
    """Nothing is cut off by mistake."""
    assert text == strip(text)


def test_nested_block_of_other_programs_is_stripped_too():
    """Any keys go, not only ours."""
    assert "body" == strip("---\nouter:\n  inner: 1\n---\nbody")


def test_lone_surrogate_in_a_title_can_be_stored():
    """A title from elsewhere never makes a file that cannot be written."""
    assert "\ufffd" in serialise(Frontmatter(type="Note", title="a\ud800"), "").encode().decode()
