# Read by other scripts, from the root of the repository: makes .venv, and `install` installs there, by uv or by pip.
export UV_HTTP_TIMEOUT=60 PIP_DISABLE_PIP_VERSION_CHECK=1
if command -v uv >/dev/null; then
  [ -x .venv/bin/python ] || uv venv -q .venv
  install() { uv pip install -q --python .venv/bin/python "$@"; }
else
  [ -x .venv/bin/python ] || python3 -m venv --without-pip .venv
  install() { python3 -m pip --python .venv/bin/python install -q --timeout 60 --retries 10 "$@"; }
fi
