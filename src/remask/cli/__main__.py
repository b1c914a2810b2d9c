"""`python -m remask.cli`."""

from remask.cli import main

main()
