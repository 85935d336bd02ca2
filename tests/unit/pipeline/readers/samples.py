"""Small files that lie in tests/samples."""

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "samples"


def sample(name: str) -> bytes:
    return (FOLDER / name).read_bytes()
