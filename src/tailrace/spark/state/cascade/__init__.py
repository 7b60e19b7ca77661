"""What foreign keys do below the log, carried out by the mirror: see docs/design/cascades.md."""
