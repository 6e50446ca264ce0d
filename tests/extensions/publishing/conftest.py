"""Fixtures of reports in a browser, and of published sites."""

import pytest

from tests.extensions.publishing.planted import published_in
from tests.ui.report.conftest import browser as browser
from tests.ui.report.conftest import driver as driver


@pytest.fixture(scope="session")
def sites(uneven, tmp_path_factory):
    """The uneven runs published twice, with a bundle: ``shown`` with all texts, ``withheld`` with none."""
    folder = tmp_path_factory.mktemp("sites")
    for name, attempts in (("shown", "all"), ("withheld", "licensed")):
        runs = [run.id for run in uneven.runs.values()]  # named: then no study is looked for
        published_in(folder / name, uneven.home, runs=runs, attempts=attempts)
    return folder
