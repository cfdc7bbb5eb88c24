"""`python -m ptd_ext` is `ptd-ext`."""

from ptd_ext.cli import main

main()
