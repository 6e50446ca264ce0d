"""Settings and their defaults. The environment (``RAGROUNDS_…``) overrides ``settings.toml``."""

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
_NOT_SETTINGS = {"RAGROUNDS_CONFIG", "RAGROUNDS_TEST_DATA", "RAGROUNDS_TEST_EXAMPLES"}
"""Variables with the prefix that are not settings: the path of the settings file, and variables of the tests."""


class McpServer(BaseModel):
    """An MCP server, whose tools agents list as ``mcp:NAME``: a program to start (`command`), or an address (`url`).

    ``${NAME}`` in `env` and `headers` is read from the environment at the first call.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    """Additional environment variables of the program."""
    cwd: Path | None = None
    url: str | None = None
    """Address of a server that speaks streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    seconds: float = Field(default=60.0, gt=0)
    """Time limit of one use of a tool."""
    price: float | None = Field(default=None, ge=0)
    """US dollars per use. By default 0 for a program on this machine, and unknown for an address."""

    @model_validator(mode="after")
    def one_of_two(self) -> McpServer:
        """Check that either a program or an address is set."""
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has a command or a url, one of the two")
        return self

    @property
    def identity(self) -> str:
        """Return the command line, or the address without login and query. It contains no key."""
        if self.url is None:
            return " ".join([self.command or "", *self.args])
        address = urlsplit(self.url)
        return f"{address.scheme}://{address.hostname}{f':{address.port}' if address.port else ''}{address.path}"


class Settings(BaseSettings):
    """Settings of the program. Unknown names, in the file or in the environment, are errors, so that typos are
    noticed.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    home: Path = Field(default_factory=lambda: Path(platformdirs.user_data_path("ragrounds", appauthor=False)))
    """Folder of runs, journal, indexes and registered benchmarks."""
    store: str | None = None
    """URL of a PostgreSQL store. The default is ``home/store.sqlite``."""
    model: str | None = None
    """Model of commands without an explicit model."""
    base_url: str | None = Field(default_factory=lambda: os.environ.get("OPENAI_BASE_URL") or None)
    """Server of commands without an explicit server. The default is ``OPENAI_BASE_URL``."""
    alias: str | None = None
    """Name of that server, or of the group if `base_url` has several addresses."""
    concurrency: int = Field(default=16, ge=1, le=4096)
    """Maximum number of attempts in flight."""
    worker_timeout: float = Field(default=20.0, ge=1)
    """Seconds after which a worker that neither responds nor computes is ended, and other workers take its
    questions.
    """
    store_timeout: float = Field(default=120.0, ge=0)
    """Seconds to wait for a PostgreSQL store that stopped responding."""
    author: str | None = Field(default=None, max_length=100)
    """Author of marks and notes on attempts. The default is the login name."""
    allow_code: bool = False
    """True if agents' files of other users may run the code that they name without confirmation."""
    mcp: dict[str, McpServer] = Field(default_factory=dict)
    """MCP servers by name: ``[mcp.NAME]`` with ``command = "…"`` and ``args = […]``, or ``url = "https://…"``."""
    project_above_dollars: float | None = Field(default=5.0, ge=0)
    """Projected cost of the rest of a run, in US dollars, above which the user must confirm."""
    project_above_minutes: float | None = Field(default=None, ge=0)
    """Projected duration of the rest of a run, in minutes, above which the user must confirm."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments of the caller, then the environment, then the settings file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


def settings_file() -> Path:
    """Return the path in ``RAGROUNDS_CONFIG``, or ``settings.toml`` in the user's configuration folder."""
    configured = os.environ.get("RAGROUNDS_CONFIG")
    return (
        Path(configured)
        if configured
        else platformdirs.user_config_path("ragrounds", appauthor=False) / "settings.toml"
    )


def read_settings() -> Settings:
    """Read the user's settings: the environment over the settings file.

    Raises:
        UserError: an unknown name or a wrong value, with its location.
    """
    variables = {PREFIX + name.upper() for name in Settings.model_fields} | _NOT_SETTINGS
    for name in os.environ:
        if name.startswith(PREFIX) and name not in variables:
            raise UserError(
                f"Unknown environment variable {name}.{nearest(name, variables)} Known: {', '.join(sorted(variables))}."
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
