"""The replication stream of a running server: a connection, a stream on it, and a feed that
resumes.
"""
