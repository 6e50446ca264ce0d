"""A server on loopback that notes what it is asked, and can be stopped as a killed one and begin again at its port."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Stub:
    """The server; a subclass says in ``reply`` what it answers; `faults` are ordered for the next answers."""

    def __init__(self):
        self.asked, self.faults, self.connections = [], [], set()
        self.lock = threading.RLock()
        self.port = 0
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Listen; after a stop at the same port."""
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                stub.connections.add(self.connection)

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stub.asked.append((self.command, self.path, dict(self.headers), body))
                made = stub.reply(self, body)
                if made is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, data, headers = made
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, address: None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Close the port and all connections, as a killed server does."""
        self._server.shutdown()
        self._server.server_close()
        while self.connections:
            with contextlib.suppress(OSError):
                self.connections.pop().shutdown(socket.SHUT_RDWR)
