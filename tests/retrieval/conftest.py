"""What the tests of retrieval scoring share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # no test here is timed
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data."""
    given = os.environ.get("RAGROUNDS_TEST_DATA")
    if not given:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA")
    return Path(given)
