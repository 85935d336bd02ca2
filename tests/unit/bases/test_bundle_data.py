"""What a bundle says in the `data` of an item is taken, left out or refused at the door, and breaks nothing later."""

import json
import zipfile
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge.bases.bundle_data import data_of
from knowledge.errors import BundleUnreadable, KnowledgeError
from knowledge.interfaces.cli import left_out
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.shapes import item_object
from knowledge.model.item_data import DataKey
from knowledge.model.status import ItemStatus

TEXT = "The lighthouse stands on the rock."
KINDS = {
    "file": {"source": "/elsewhere/a.md", "relative_path": "a.md"},
    "note": {"source": "a", "relative_path": "a.md"},
    "url": {"source": "http://127.0.0.1:9/a", "relative_path": "a.md"},
    "directory": {"source": "/elsewhere/docs", "relative_path": "docs"},
    "archive": {"source": "/elsewhere/a.zip", "relative_path": "a.zip"},
    "sitemap": {"source": "http://127.0.0.1:9/sitemap.xml", "relative_path": "site"},
}
CONTAINERS = ("directory", "archive", "sitemap")
GOOD = {
    "content": TEXT,
    "confined": True,
    "path_bytes": "/elsewhere/a%FF.md",
    "archive": "/elsewhere/a.zip",
    "member": "in/a.md",
    "occurrence": 2,
    "size": 34,
    "stamp": "34:1",
    "include": ["*.md"],
    "exclude": ["*.txt"],
    "mount": True,
    "skipped": {"count": 1, "reasons": {"hidden": 1}, "sample": [{"path": "x", "reason": "empty"}]},
    "capture": {"url": "http://127.0.0.1:9/", "charset": "utf-8", "replaced_characters": 3, "media_type": "text/html"},
    "title": "The lighthouse",
    "converted_sha256": "0" * 64,
    "of a later version": [1],
}
TRAVELS = set(DataKey) - {DataKey.CONVERTED_SHA256}  #: Markdown of conversions does not
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**4000, -1, 2**63, float("nan"), float("inf"), "", "\0", "%00", "../..", "\ud800", "9" * 5000])
    | st.floats()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "url"]) | st.text(), inner, max_size=3),
    max_leaves=8,
)
SOME_GOOD = st.fixed_dictionaries({}, optional={name: st.just(value) for name, value in GOOD.items()})
ONE_ODD = st.one_of(
    st.just({}),
    st.dictionaries(st.sampled_from(list(GOOD)), ODD, max_size=1),
    *(
        st.builds(lambda name, odd, key=key: {key: {**GOOD[key], name: odd}}, st.sampled_from(list(GOOD[key])), ODD)
        for key in ("capture", "skipped")
    ),
    *(st.builds(lambda odd, key=key: {key: ["*.md", odd]}, ODD) for key in ("include", "exclude")),
)
DATA = st.builds(lambda good, odd: {"content": TEXT, **good, **odd}, SOME_GOOD, ONE_ODD)


@pytest.fixture
def bundle(tmp_path):
    """Writes a bundle with one item of a kind, and a file in it if it is a container."""
    numbers = count()

    def bundle(kind, data):
        row = {"id": "x", "type": kind, "data": data, **KINDS[kind]}
        rows, path = [row], row["relative_path"]
        if kind in CONTAINERS:
            path = f"{path}/in.md"
            rows.append(
                {"id": "in", "type": "file", "source": f"{row['source']}/in.md", "relative_path": path, "group_id": "x"}
            )
        place = tmp_path / f"{next(numbers)}.zip"
        with zipfile.ZipFile(place, "w") as archive:
            archive.writestr("base.json", json.dumps({"format": 1, "base": {"name": "moved"}, "items": rows}))
            archive.writestr(f"raw/{path}", TEXT)
        return place

    return bundle


def lived_through(house, base):
    """Everything that reads an item's data: its jobs, lists, a reindex, a restore. Raises what no caller could expect."""
    house.work(hurry=True)
    for item in house.service.list_items(base.id).items:
        json.dumps(item_object(item), allow_nan=False).encode()
        left_out.reasons(item)
        left_out.print_names(Output(), item)
    first = house.items(base)
    roots = [item.id for item in first if item.group_id is None]
    for ask in (
        lambda: house.service.reindex_items(base.id, roots),
        lambda: house.service.restore_base(base.id, "restored", None),
    ):
        try:
            ask()
        except KnowledgeError as error:  # gone, or not to be read for whoever brought it in
            json.dumps(error.to_wire())
        house.work(hurry=True)
    return first


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_bundle_says_of_an_item_breaks_nothing(house, bundle, kind, capsys):
    """It is refused and leaves nothing, or everything that reads it later works."""

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(DATA)
    def holds(data):
        try:
            base = house.service.import_base(bundle(kind, data))
        except BundleUnreadable:
            assert [] == house.service.list_bases()
            return
        first = lived_through(house, base)

        assert {ItemStatus.COMPLETED} == {item.status for item in first}
        assert "internal_error" not in {job.error for job in house.jobs()}
        for one in house.service.list_bases():
            house.service.delete_base(one.id)

    holds()


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_item_of_this_kind_has_is_kept_and_no_more(kind):
    """All that ours may say comes through; what belongs to others, to conversions or to later versions does not."""
    kept = {
        "file": ["path_bytes", "archive", "member", "occurrence", "size", "stamp"],
        "note": ["content"],
        "url": ["capture", "title", "size", "stamp"],
        "directory": [
            "path_bytes",
            "archive",
            "member",
            "occurrence",
            "size",
            "stamp",
            "skipped",
            "mount",
            "include",
            "exclude",
        ],
        "archive": ["path_bytes", "archive", "member", "occurrence", "size", "stamp", "skipped"],
        "sitemap": ["skipped"],
    }[kind]

    assert {name: GOOD[name] for name in ("confined", *kept)} == data_of(kind, GOOD)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("url", {"capture": {"replaced_characters": "many"}}),
        ("url", {"capture": {"replaced_characters": 10**30}}),
        ("url", {"capture": {"charset": ["utf-8"]}}),
        ("url", {"capture": "now"}),
        ("url", {"title": {"of": "a page"}}),
        ("file", {"archive": "/a.zip"}),
        ("file", {"path_bytes": "/a%00.md"}),
        ("file", {"size": -1}),
        ("file", {"confined": "yes"}),
        ("directory", {"include": "*.md"}),
        ("directory", {"exclude": ["# no pattern"]}),
        ("directory", {"mount": "yes"}),
        ("directory", {"skipped": {"count": 1, "reasons": ["hidden"]}}),
        ("note", {}),
    ],
)
def test_what_nobody_could_have_written_is_refused_by_name(house, bundle, kind, data):
    """Nothing of the bundle is left."""
    name = next(iter(data), "content")
    with pytest.raises(BundleUnreadable, match=f"data.*{name}"):
        house.service.import_base(bundle(kind, data if kind == "note" else {"content": TEXT, **data}))

    assert [] == house.service.list_bases()


def test_every_key_that_there_is_travels():
    """A new one that is not written down for bundles would vanish from imports in silence."""
    taken = {key for kind in KINDS for key in data_of(kind, GOOD if kind == "note" else {**GOOD, "content": None})}

    assert TRAVELS == taken
