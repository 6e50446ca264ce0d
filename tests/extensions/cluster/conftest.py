"""Fixtures of other tests: a model on a loopback server, and the store of the viewer."""

from tests.engine.conftest import served as served
from tests.ui.trace.conftest import pages as pages
from tests.ui.trace.conftest import quiz as quiz
from tests.ui.trace.conftest import store as store
