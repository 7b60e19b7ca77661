"""A log that several processes write together: each a part of the rows, and one all of the log."""
