import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; the test is skipped where there is none."""
    folder = os.environ.get("RAGROUNDS_TEST_DATA")
    if not folder:
        pytest.skip("needs real data: set RAGROUNDS_TEST_DATA (docs/benchmarks.md says where each part comes from)")
    return Path(folder)
