"""The command line in this process."""

from tests.cli.conftest import run  # noqa: F401 - a fixture
