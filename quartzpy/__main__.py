"""`python -m quartzpy` is the command line."""

from quartzpy.cli.main import main

main()
