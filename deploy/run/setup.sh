#!/usr/bin/env bash
# Makes .venv, or leaves it alone when nothing it was made from has changed. Run by `make setup`.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
stamp=.venv/.made-from

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

key() { # what .venv is made from; a moved checkout counts, because scripts in .venv hold its path
  { cat pyproject.toml constraints.txt deploy/run/setup.sh; pwd; } | cksum
}

libmagic_is_here() {
  "$1" -c 'import ctypes; ctypes.CDLL("libmagic.so.1")' 2>/dev/null ||
    "$1" -c 'import ctypes.util, sys; sys.exit(not ctypes.util.find_library("magic"))' 2>/dev/null
}

as_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

get_libmagic() { # see deploy/decisions/libmagic.md
  libmagic_is_here "$python" && return
  if as_root; then
    echo "setup: installing libmagic1"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libmagic1; } >/dev/null ||
      fail "libmagic1 could not be installed; run: apt-get install libmagic1"
    libmagic_is_here "$python" && return
  fi
  if command -v apt-get >/dev/null; then fail "libmagic is missing; run: sudo apt-get install -y libmagic1"; fi
  if command -v dnf >/dev/null; then fail "libmagic is missing; run: sudo dnf install -y file-libs"; fi
  if command -v brew >/dev/null; then fail "libmagic is missing; run: brew install libmagic"; fi
  fail "libmagic is missing; install your system's package of it (often called file or libmagic) and run make setup again"
}

if .venv/bin/python -c '' 2>/dev/null; then
  python=.venv/bin/python # what is there stays, whatever python3 has become
fi
command -v "$python" >/dev/null || fail "$python was not found; install Python 3.11 or newer, or name it: make setup PYTHON=python3.12"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not start"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$python is Python $version, but 3.11 or newer is needed; name another one: make setup PYTHON=python3.12"

get_libmagic
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(key)" ]; then
  exit 0
fi

echo "setup: making .venv with Python $version (a few minutes the first time)"
rm -f "$stamp"
if [ "$python" != .venv/bin/python ]; then
  rm -rf .venv
  if ! "$python" -m venv .venv; then
    rm -rf .venv
    fail "$python cannot make virtual environments; on Debian and Ubuntu run: sudo apt-get install -y python3-venv"
  fi
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[server,local,embedded,dev]'
key >"$stamp"
echo "setup: ready"
