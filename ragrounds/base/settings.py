"""Where things live and what is set by default: the environment (``RAGROUNDS_…``) over ``settings.toml``."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import fault

PREFIX = "RAGROUNDS_"
_OTHERS = {"RAGROUNDS_CONFIG", "RAGROUNDS_TEST_DATA", "RAGROUNDS_TEST_EXAMPLES"}
"""Variables with our prefix that are no settings: the path of the settings, and what the tests are run with."""


class McpServer(BaseModel):
    """An MCP server, whose tools agents list as ``mcp:NAME``: a program that is started (`command`), or an address
    (`url`). ``${NAME}`` in `env` and `headers` is read from the environment when the server is first asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """What the program finds in its environment, beside what every program needs."""
    cwd: Path | None = None
    url: str | None = None
    """Of a server that speaks streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    seconds: float = Field(default=60.0, gt=0)
    """For one use of a tool."""
    price: float | None = Field(default=None, ge=0)
    """Dollars of one use; by default 0 for a program on this machine, and not known for an address."""

    @model_validator(mode="after")
    def one_of_two(self) -> McpServer:
        """Either a program or an address."""
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has a command or a url, one of the two")
        return self

    @property
    def identity(self) -> str:
        """What it is, as text: its command line, or its address without a login and a query. No key is in it."""
        if self.url is None:
            return " ".join([self.command or "", *self.args])
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.hostname}{f':{address.port}' if address.port else ''}{address.path}"


class Settings(BaseSettings):
    """Unknown names, in the file or in the environment, are errors: a misspelt setting must not pass unseen."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_path("ragrounds", appauthor=False)))
    """Runs, journal, indexes, registered benchmarks."""
    store: str | None = None
    """URL of a PostgreSQL store; by default ``home/store.sqlite``."""
    model: str | None = None
    """The model used where a command names none."""
    base_url: str | None = Field(default_factory=lambda: os.environ.get("OPENAI_BASE_URL") or None)
    """The server used where a command names none; ``OPENAI_BASE_URL`` where the settings name none either."""
    alias: str | None = None
    """A name for that server, or for the group where `base_url` has several addresses."""
    concurrency: int = Field(default=16, ge=1, le=4096)
    """Attempts in flight."""
    worker_timeout: float = Field(default=20.0, ge=1)
    """Seconds after which a worker that neither answers nor computes is ended, and others take up its questions."""
    store_timeout: float = Field(default=120.0, ge=0)
    """Seconds for which a PostgreSQL store that does not answer any more is waited for."""
    author: str | None = Field(default=None, max_length=100)
    """Who marks attempts and writes notes beside them; by default the name of the login."""
    allow_code: bool = False
    """Whether agents' files of other users may run the code that they name without a yes."""
    mcp: dict[str, McpServer] = Field(default_factory=dict)
    """MCP servers by name: ``[mcp.NAME]`` with ``command = "…"`` and ``args = […]``, or ``url = "https://…"``."""
    project_above_dollars: float | None = Field(default=5.0, ge=0)
    """Dollars that the rest of a run may be projected to cost before the user is asked."""
    project_above_minutes: float | None = Field(default=None, ge=0)
    """Minutes that it may be projected to take."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What a caller says comes first, then the environment, then the settings file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


def settings_file() -> Path:
    """``RAGROUNDS_CONFIG``, or ``settings.toml`` in the user's configuration folder."""
    named = os.environ.get("RAGROUNDS_CONFIG")
    return Path(named) if named else platformdirs.user_config_path("ragrounds", appauthor=False) / "settings.toml"


def read_settings() -> Settings:
    """Read the settings.

    Raises:
        UserError: an unknown name or a wrong value, with the place it stands in.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields} | _OTHERS
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            raise UserError(
                f"Unknown environment variable {name}.{nearest(name, known)} Known: {', '.join(sorted(known))}."
            )
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UserError(
            f"Setting {name!r}: {first['msg'].lower()}{nearest(name, Settings.model_fields)} It is set in "
            f"{settings_file()} or in the environment as {PREFIX}{name.upper()}."
        ) from error
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"Cannot read {settings_file()}: {fault(error)}") from error
