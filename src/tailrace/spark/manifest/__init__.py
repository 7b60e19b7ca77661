"""A lake's manifest: what is kept of each table, in which files, and how it is read and written."""
