"""gRPC before the scripted model server: each call asks it, so that it counts them.

It runs under the Python of what calls it, with grpcio and nothing of ours: `grpc_front.py PORT PORT_BEHIND`.
"""

import json
import sys
import urllib.request
from concurrent import futures

import grpc


def main() -> None:
    """Serve until it is ended."""
    port, behind = sys.argv[1:]

    def ask(question: bytes, context: grpc.ServicerContext) -> bytes:
        body = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": question.decode()}]})
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{behind}/v1/chat/completions", body.encode(), headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            return str(json.load(answer)["choices"][0]["message"]["content"]).encode()

    server = grpc.server(futures.ThreadPoolExecutor(8))
    methods = {"Ask": grpc.unary_unary_rpc_method_handler(ask)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("notes.Doctor", methods),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
