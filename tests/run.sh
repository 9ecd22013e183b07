#!/usr/bin/env bash
# Installs all that the tests need into .venv, and runs them. Arguments go to pytest.
# Needs Python 3.11 or later with pip, or uv; and Node with npm for a client that is written in JavaScript.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/venv.sh

install -e '.[test,clients,docs]'
# Again only where the lock file is newer than what was installed by it.
javascript=tests/clients/ai_sdk
[ "$javascript/node_modules/.package-lock.json" -nt "$javascript/package-lock.json" ] ||
  npm ci --prefix "$javascript" --no-audit --no-fund
exec .venv/bin/python -m pytest -n auto --dist worksteal "$@"
