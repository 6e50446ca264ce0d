"""Program that serves a GGUF file by llama.cpp's own server, on the loopback interface, until it is ended.

It is run as a file, in an environment with the package ``xllamacpp``, and imports nothing else of ragrounds.
"""

from __future__ import annotations

import argparse
import signal


def main() -> None:
    """Serve the model of the arguments."""
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="name under which the server lists the model")
    parser.add_argument("--weights", required=True, help="GGUF file")
    for name in ("port", "window", "slots", "threads"):
        parser.add_argument(f"--{name}", required=True, type=int)
    arguments = parser.parse_args()
    parameters = xllamacpp.CommonParams()
    parameters.model.path = arguments.weights
    parameters.model_alias = {arguments.model}
    parameters.hostnames, parameters.port = ["127.0.0.1"], arguments.port
    parameters.n_parallel = arguments.slots
    parameters.n_ctx = arguments.window * arguments.slots  # llama.cpp divides it among the slots
    parameters.kv_unified = False
    parameters.fit_params = False  # the window that was asked for, or an error
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = arguments.threads
    server = xllamacpp.Server(parameters)
    print(f"{arguments.model} at {server.listening_address}", flush=True)  # noqa: T201
    signal.pause()  # the server works in threads of its own


if __name__ == "__main__":
    main()
