"""`python -m rankfall`."""

from rankfall.cli import main

main()
