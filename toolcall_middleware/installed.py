"""How this copy of the package was installed."""

from __future__ import annotations

import json
import shlex
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

_NAME = "toolcall-middleware"


def install_command(extra: str) -> str:
    """The shell command that adds an extra to this copy: from a checkout, a file or a repository, as it was installed.

    Only a copy that came from an index by its name gets it from there.
    """
    origin = _origin()
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        folder = f"{url2pathname(urlsplit(url).path)}[{extra}]"
        return f"pip install {'-e ' if origin['dir_info'].get('editable') else ''}{shlex.quote(folder)}"
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        url = f"{vcs.get('vcs', 'git')}+{url}@{vcs.get('requested_revision') or vcs.get('commit_id', '')}".rstrip("@")
    return "pip install " + shlex.quote(f"{_NAME}[{extra}]" + (f" @ {url}" if url else ""))


def _origin() -> dict[str, Any]:
    """PEP 610's `direct_url.json`; empty for a copy from an index. Files that were never installed are a checkout."""
    try:
        found = json.loads(metadata.distribution(_NAME).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        checkout = Path(__file__).parents[1]
        if not (checkout / "pyproject.toml").is_file():
            return {}
        return {"url": checkout.as_uri(), "dir_info": {}}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
