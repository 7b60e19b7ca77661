"""A source that replicas attach to: it serves logs as a server does."""
