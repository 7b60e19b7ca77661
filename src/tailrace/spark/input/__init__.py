"""Sources: one cursor over files and servers, for the mirror, the stream and verify."""
