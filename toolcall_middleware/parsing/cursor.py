"""Where in a text a reader of calls stands, and what all such readers look for."""

from __future__ import annotations

import re

WHITE_SPACE = re.compile(r"[ \t\r\n]*")
