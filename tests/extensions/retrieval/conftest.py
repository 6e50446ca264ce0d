"""What the tests of retrieval scoring share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data."""
    given = os.environ.get("RAGROUNDS_TEST_DATA")
    if not given:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA")
    return Path(given)
