"""What explains an item's status, in a sentence that says where to look next."""

from knowledge.model.inputs import DirectoryInput


def test_a_directory_names_what_failed_in_it(house, tmp_path):
    """Its own job has ended well: the reason lies below."""
    folder = tmp_path / "docs" / "inner"
    folder.mkdir(parents=True)
    (folder / "good.md").write_text("The lamp is lit.")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    base = house.base(None)
    (root,) = house.add(base, DirectoryInput(path=tmp_path / "docs"))
    house.work()
    (bad,) = house.service.failures(base.id)
    told = house.service.why(root.id).explanation

    assert f"has failed, first docs/inner/bad.pdf ({bad.id}) with {bad.error}." in told
    house.service.delete_items(base.id, [root.id])
    assert "failed" not in house.service.why(root.id).explanation
