#!/usr/bin/env bash
# Installs the outside programs that the tests run for real, or nothing if they are there. Run by `make tools`, before the tests.
# Each is optional where Knowledge runs: without it the files that need it are refused or lack text, and a message says what to install.
set -euo pipefail

#: program | package of Debian and Ubuntu | what for
tools() {
  cat <<'LIST'
soffice|libreoffice-writer-nogui libreoffice-impress-nogui|doc and ppt
tesseract|tesseract-ocr|text in scans and pictures
LIST
}

fail() {
  printf 'tools: %s\n' "$*" >&2
  exit 1
}

is_here() {
  command -v "$1" >/dev/null || return 1
  [ "$1" = soffice ] || return 0
  local folder
  folder=$(dirname "$(readlink -f "$(command -v soffice)")") # a LibreOffice may lack Writer or Impress
  [ ! -e "$folder/soffice.bin" ] || { [ -e "$folder/libswlo.so" ] && [ -e "$folder/libsdlo.so" ]; }
}

missing=()
while IFS='|' read -r program packages purpose; do
  is_here "$program" && continue
  echo "tools: $program is missing ($purpose)"
  read -r -a names <<<"$packages"
  missing+=("${names[@]}")
done < <(tools)
[ ${#missing[@]} = 0 ] && exit 0

by_hand="sudo apt-get install -y --no-install-recommends ${missing[*]}"
command -v apt-get >/dev/null ||
  fail "install LibreOffice (Writer and Impress) and tesseract with your system's packages, then run make test again"
if [ "$(id -u)" = 0 ]; then
  as_root=(env)
elif sudo -n true 2>/dev/null; then
  as_root=(sudo -n env)
else
  fail "run: $by_hand"
fi

echo "tools: installing ${missing[*]}"
{
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
} >/dev/null || fail "they could not be installed; run: $by_hand"

while IFS='|' read -r program _ _; do
  is_here "$program" || fail "$program is still missing after installing ${missing[*]}"
done < <(tools)
echo "tools: ready"
