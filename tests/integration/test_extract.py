"""`knowledge extract`, as a person runs it: over the demo's documents, and over real ones where they are at hand.

Real documents with required phrases lie beside a checkout in `shared/data/documents`, where somebody has put them. What they
ask for is judged here as their own tool judges it.
"""

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "deploy" / "examples"
REAL = CHECKOUT.parent / "shared" / "data" / "documents"
BETTER_SHARE = 0.9  #: of what a thorough reader finds

OURS = [
    {"file": "weather/station-manual.pdf", "expect": "text", "must": ["station"]},
    {"file": "birds/ringing-report-2024.docx", "expect": "text", "must": ["ringing"]},
    {"file": "observatory/observing-guide.html", "expect": "text", "must": ["telescope"]},
    {"file": "inventory/boats.json", "expect": "text", "must": ["boat"]},
    {"file": "weather/readings-2025-01.csv", "expect": "text", "must": ["2025-01"]},
    {"file": "letters/1897-keeper-to-commissioners.txt", "expect": "text", "must": ["Commissioners"]},
]


def knowledge(*arguments, cwd=None):
    """A run of the command, without any setting."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return subprocess.run(
        [sys.executable, "-m", "knowledge.interfaces.cli", "extract", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environ | {"KNOWLEDGE_APP": "no.such:application"},
        cwd=cwd or CHECKOUT,
        timeout=280,
    )


def extracted(directory):
    done = knowledge(directory, "--jobs", "2", "--json")
    assert done.returncode in (0, 3), done.stderr
    assert "" == done.stderr
    return {result["file"]: result for result in map(json.loads, done.stdout.splitlines())}


def fold(text):
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return "".join(c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cf", "Cc", "Mn", "Co"))


def fault(entry, result):
    """What is wrong with the result for an entry of a manifest, or nothing."""
    if result is None:
        return "no result"
    is_refused = "error" in result
    text = fold(result.get("text", ""))
    if bad := [wanted for wanted in entry.get("must_not", ()) if fold(wanted) in text]:
        return f"holds {bad}"
    lacking = [wanted for wanted in entry.get("must", ()) if fold(wanted) not in text]
    match entry["expect"]:
        case "text" if is_refused:
            return f"refused: {result['error']}" if entry.get("must") else None
        case "text":
            return f"lacks {lacking}" if lacking else out_of_order(text, entry.get("order", ()))
        case "error":
            allowed = {entry.get("error"), *entry.get("also", ())}
            if is_refused:
                return None if result["code"] in allowed else f"code is {result['code']}, not one of {allowed}"
            return None if ("text" if text else "no_text") in allowed else f"not refused, gave {text[:40]!r}"
        case "no_text":
            ocr = entry.get("ocr")
            is_fine = is_refused or not text.replace("\ufffd", "") or (ocr and all(fold(word) in text for word in ocr))
            return None if is_fine else f"gave {text[:40]!r}"
        case "archive":
            return None if is_refused or not lacking else f"lacks {lacking}"
    raise AssertionError(entry["expect"])


def out_of_order(text, strings):
    place = 0
    for wanted in strings:
        place = text.find(fold(wanted), place) + 1
        if not place:
            return f"{wanted!r} is out of order"
    return None


def manifest():
    path = REAL / "manifest.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(("directory", "entries"), [(EXAMPLES, OURS), (REAL, manifest())][: 2 if manifest() else 1])
def test_every_document_is_read_or_refused_with_its_code(directory, entries):
    """No setting, no base, no service; nothing on stderr, and never a traceback."""
    results = extracted(directory)

    assert {} == {entry["file"]: wrong for entry in entries if (wrong := fault(entry, results.get(entry["file"])))}
    better = [
        fold(wanted) in fold(results[entry["file"]].get("text", "")) for entry in entries for wanted in entry.get("better", ())
    ]
    assert sum(better) >= BETTER_SHARE * len(better)


def test_results_say_what_was_found(tmp_path):
    """A line for each file, in order of names; hidden files and links are left out, the others told one by one."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "page.html").write_text("<h1>Häfen</h1>", encoding="latin-1")
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "c.pdf").write_text("words")
    (tmp_path / ".hidden").write_text("words")
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")

    done = knowledge(tmp_path, "--json")

    first, refused, page = map(json.loads, done.stdout.splitlines())
    assert 3 == done.returncode
    assert ("a.txt", "words", 5) == (first["file"], first["text"], first["quality"]["characters"])
    assert ("c.pdf", "corrupt") == (refused["file"], refused["code"])
    assert ("b/page.html", "# Häfen", "html", "cp1252") == (
        page["file"],
        page["text"],
        page["quality"]["reader"],
        page["quality"]["charset"],
    )


def test_people_get_text_and_errors_apart(tmp_path):
    """Text on stdout with a heading for each file; what a terminal would obey is shown instead."""
    (tmp_path / "a.txt").write_text("first\tline\n\x1b[2Jsecond")
    (tmp_path / "b.txt").write_bytes(b"")

    done = knowledge("a.txt", "b.txt", "absent.txt", cwd=tmp_path)

    assert 3 == done.returncode
    assert "== a.txt (text, 21 characters)\nfirst   line\n\\x1b[2Jsecond\n\n" == done.stdout
    assert [
        "knowledge: b.txt: This file has 0 bytes. (empty)",
        "knowledge: absent.txt: There is no such file or directory. (path_not_found)",
        "1 file read, 2 not",
    ] == done.stderr.splitlines()


@pytest.mark.parametrize(("arguments", "code"), [(["--types", "txt,.MD", "--json"], 0), (["--types", "pdf", "--json"], 1)])
def test_types_are_chosen_by_suffix(tmp_path, arguments, code):
    """Nothing that was chosen could be read: exit code 1."""
    for name in ("a.txt", "b.md", "c.pdf"):
        (tmp_path / name).write_text("words")

    done = knowledge(tmp_path, *arguments)

    assert code == done.returncode
    assert (["a.txt", "b.md"] if code == 0 else ["c.pdf"]) == [json.loads(line)["file"] for line in done.stdout.splitlines()]


def test_current_directory_runs_no_code_of_its_own(tmp_path):
    """Somebody's download folder may hold a file named like a module that a reader loads."""
    for name in ("lxml", "zipfile", "magic", "pypdfium2", "knowledge"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w')")
    (tmp_path / "a.html").write_text("<p>words")

    command = Path(sys.executable).with_name("knowledge")
    done = subprocess.run([command, "extract", ".", "--types", "html"], capture_output=True, text=True, cwd=tmp_path)

    assert "words" in done.stdout
    assert not (tmp_path / "was-run").exists()
