"""Certificates that a server signs for itself."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def certificate_of(host: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """(the certificate's file, what a server shows it with). Nobody trusts it who is not told to."""
    key, shown = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    files = ["-keyout", str(key), "-out", str(shown)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *subject]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, key)
    return shown, context
