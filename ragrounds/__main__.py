"""`python -m ragrounds`."""

from ragrounds.cli import main

main()
