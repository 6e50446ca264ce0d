"""Fixtures of the viewer's store, which its tests compare with a store in PostgreSQL."""

from tests.ui.trace.conftest import pages as pages
from tests.ui.trace.conftest import quiz as quiz
from tests.ui.trace.conftest import store as store
