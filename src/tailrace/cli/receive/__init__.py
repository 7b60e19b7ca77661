"""The command ``tailrace receive``."""
