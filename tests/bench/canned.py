"""An upstream that answers each request with the bytes of one file: `python -m tests.bench.canned PORT FILE`.

The file is an answer from its status line on, read anew for each request; who asks may write another one before it
asks again. The connection ends with the answer.
"""

from __future__ import annotations

import socketserver
import sys
from pathlib import Path


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        rest = 0
        chunked = False
        while (line := self.rfile.readline(65536)) not in {b"\r\n", b""}:
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                rest = int(value)
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
        while chunked and (size := int(self.rfile.readline(65536).partition(b";")[0] or b"0", 16)):
            self.rfile.read(size + 2)
        self.rfile.read(rest)
        self.wfile.write(Path(sys.argv[2]).read_bytes())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with _Server(("127.0.0.1", int(sys.argv[1])), _Handler) as server:
        server.serve_forever()
