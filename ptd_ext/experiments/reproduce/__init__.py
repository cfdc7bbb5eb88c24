"""Running a whole table of the paper cell by cell, and reporting it: `ptd-ext reproduce`."""
