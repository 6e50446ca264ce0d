"""The fixture of stores."""

from tests.ui.conftest import store as store
