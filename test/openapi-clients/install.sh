#!/usr/bin/env bash
# Installs what check.ts runs, if it is missing: the packages of npm, and those of Python into .venv.
set -euo pipefail
cd "$(dirname "$0")"
[ -d node_modules ] || npm ci --ignore-scripts --no-audit --no-fund
if ! cmp -s requirements.txt .venv/requirements.txt; then
  python3 -m venv --clear .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements.txt
  cp requirements.txt .venv/
fi
