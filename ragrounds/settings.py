"""Where things live and what is set by default: the environment (``RAGROUNDS_…``) over ``settings.toml``."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from ragrounds.errors import UserError, nearest
from ragrounds.text import fault

PREFIX = "RAGROUNDS_"
_OTHERS = {"RAGROUNDS_CONFIG", "RAGROUNDS_TEST_DATA"}
"""Variables with our prefix that are not settings: where the settings are, and data for the tests."""


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
    worker_silence: float = Field(default=20.0, ge=1)
    """Seconds after which a worker that neither answers nor computes is ended, and others take up its questions."""
    store_patience: float = Field(default=120.0, ge=0)
    """Seconds for which a PostgreSQL store that does not answer any more is waited for."""
    author: str | None = Field(default=None, max_length=100)
    """Who marks attempts and writes notes beside them; by default the name of the login."""
    allow_code: bool = False
    """Whether agents' files of other users may run the code that they name without a yes."""
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
            f"Setting {name!r}: {first['msg'].lower()}{nearest(name, Settings.model_fields)} "
            f"It stands in {settings_file()} or in the environment as {PREFIX}{name.upper()}."
        ) from error
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"Cannot read {settings_file()}: {fault(error)}") from error
