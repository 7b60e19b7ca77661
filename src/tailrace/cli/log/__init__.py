"""The command ``tailrace log``."""
