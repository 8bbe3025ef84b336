"""The child process of the llama_cpp backend: one GGUF model behind an HTTP server on loopback.

Run as a script with the options as JSON on standard input and the API key in ``GAGE_LLAMA_CPP_KEY``, so that
neither shows in the list of processes; it imports nothing of this package. Prints ``LISTENING url`` when the
model is loaded, and serves until it is stopped.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

KEY_VARIABLE = "GAGE_LLAMA_CPP_KEY"
LISTENING = "LISTENING "


def main() -> None:
    """Serve until told to end."""
    # Cleared, so that nothing this process starts inherits it.
    key = os.environ.pop(KEY_VARIABLE)
    options = json.loads(sys.stdin.readline())
    for number in (signal.SIGTERM, signal.SIGINT):
        # The engine's threads are not worth joining: nothing is written anywhere.
        signal.signal(number, lambda *_: os._exit(0))
    # The engine logs to both streams, and the pipe is not read after the first line.
    answer = os.dup(1)
    os.dup2(2, 1)
    server = _serve(options, key)
    os.write(answer, f"{LISTENING}{server.listening_address}\n".encode())
    os.close(answer)
    while True:
        signal.pause()


def _serve(options: Mapping[str, Any], key: str) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["model_path"]
    # Otherwise answers name the model by its path, and no path of this machine belongs in an artifact.
    params.model_alias = {"gguf"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    # The context is shared among the slots: each request gets n_ctx.
    params.n_ctx = options["n_ctx"] * options["n_parallel"]
    params.n_parallel = options["n_parallel"]
    params.cpuparams.n_threads = options["n_threads"]
    params.cpuparams_batch.n_threads = options["n_threads"]
    params.n_gpu_layers = options["n_gpu_layers"]
    # With a prompt cache an answer's last digits depend on what was asked before it.
    params.cache_prompt = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
