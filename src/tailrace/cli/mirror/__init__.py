"""The command ``tailrace mirror``."""
