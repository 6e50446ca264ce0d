"""Models whose server is started when it is first needed (``vllm:NAME``, ``local:NAME``).

Nothing is started for a run that the journal answers. The model's identity is its name, its weights and its sampling,
without the server's address, so a recorded call is found again whatever port the server had.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ragrounds.base.contracts import Continuation, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Fault, Reply
from ragrounds.base.settings import read_settings
from ragrounds.base.specs import parse
from ragrounds.models.base import ProviderModel
from ragrounds.models.faults import CallFailed
from ragrounds.models.openai_compatible import OpenAICompatible
from ragrounds.models.options import LOCAL, ModelOptions, read_options, starts_server
from ragrounds.models.prices import Price
from ragrounds.models.started_server import ServeCommand, StartedServer, Tell

_MOMENT = 10
"""Checks of the server, a tenth of a second apart, after a connection failed."""


def say(line: str) -> None:
    """Print progress to stderr, by default."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


class StartedModel(ProviderModel):
    """Chat model on a server that is started here (contract: :class:`ragrounds.base.contracts.Model`)."""

    def __init__(self, options: ModelOptions, price: Price | None = None, home: Path | None = None) -> None:
        super().__init__(options, price)
        self._prices, self._home = price, home
        self._command = command_of(options)
        self._server: StartedServer | None = None
        self._joined: OpenAICompatible | None = None
        self._opening: asyncio.Lock | None = None

    @property
    def continues(self) -> Continuation:
        """Way in which the model continues its own text."""
        return self._options.continues

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Ask the server; the first call starts it.

        Raises:
            StopRun: the server cannot be started, or has ended by itself.
        """
        joined = self._joined or await self._open_server()
        try:
            return await joined.complete(request, faults)
        except (StopRun, CallFailed) as error:
            if isinstance(error, CallFailed) and error.kind not in ("connection", "unreachable"):
                raise
            # The server's end explains more than a cut connection, but is noticed a moment later.
            for _ in range(_MOMENT):
                self._check()
                await asyncio.sleep(0.1)
            raise

    async def close(self) -> None:
        """Close the connections; the server is stopped when its last model is closed."""
        joined, self._joined = self._joined, None
        if joined is not None:
            await joined.close()
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(_servers.give_back, server)

    async def _open_server(self) -> OpenAICompatible:
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._joined is None:
                server = self._server = self._server or _servers.take(self._command, self._home, say)
                url = await asyncio.to_thread(server.start)
                serving = msgspec.structs.replace(self._options.serving, base_url=url)
                # `alive` is called before every try: otherwise a call cut by the end of its server
                # would be retried until its time ends.
                options = msgspec.structs.replace(self._options, serving=serving)
                self._joined = OpenAICompatible(options, self._prices, alive=self._check)
            return self._joined

    def _check(self) -> None:
        if self._server is not None and self._server.died:
            raise self._server.death()


class _Servers:
    """Servers of this process: equal commands share one, which ends with its last user."""

    def __init__(self) -> None:
        self._users: dict[ServeCommand, tuple[StartedServer, int]] = {}

    def take(self, command: ServeCommand, home: Path | None, tell: Tell) -> StartedServer:
        """Return the server of a command, with one more user."""
        server, users = self._users.get(command) or (StartedServer(command, home or read_settings().home, tell), 0)
        self._users[command] = (server, users + 1)
        return server

    def give_back(self, server: StartedServer) -> None:
        """Remove one user of a server; the server is stopped after its last user."""
        shared, users = self._users.pop(server.command)
        if users > 1:
            self._users[server.command] = (shared, users - 1)
        else:
            shared.stop()

    def stop_all(self) -> None:
        """Stop every server, whoever uses it."""
        for server, _ in list(self._users.values()):
            server.stop()


_servers = _Servers()


def give_up() -> None:
    """Stop every server of this process, also one that is still starting."""
    _servers.stop_all()


@contextlib.contextmanager
def served(
    models: Iterable[str], home: Path, tell: Tell = say, died: Callable[[StopRun], None] = lambda error: None
) -> Iterator[Mapping[str, str]]:
    """Start the servers that some models need, for other processes to join: text → text with the server's address.

    The texts of other models, and of those with a server's address, are returned unchanged. The text with the address
    has the same identity, so it leads to the same runs and the same recorded calls. The servers end with the block, or
    with this process; `died` is called, in another thread, when one ends by itself.

    Raises:
        UserError: a model's text is wrong, or the server or the weights are not installed.
        StopRun: a server could not be started.
    """
    taken: list[StartedServer] = []
    joined: dict[str, str] = {}
    try:
        for text in models:
            spec = parse(text)
            if starts_server(text):
                server = _servers.take(command_of(read_options(spec)), home, tell)
                taken.append(server)
                server.when_died(lambda server=server: died(server.death()))  # type: ignore[misc]
                joined[text] = str(spec.having(base_url=server.start()))
            else:
                joined[text] = text
        yield joined
    finally:
        for server in taken:
            _servers.give_back(server)


def command_of(options: ModelOptions) -> ServeCommand:
    """Return the command that serves a model.

    Raises:
        UserError: `extra` is not a line of arguments; the weights of a local model are not there.
    """
    if options.provider == LOCAL:
        from ragrounds.models.llama_cpp import llama_command

        return llama_command(options)
    from ragrounds.models.vllm import vllm_command

    return vllm_command(options)
