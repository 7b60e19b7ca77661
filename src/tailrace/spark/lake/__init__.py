"""The lake on disk: versions, what they hold, and the resume point of each source."""
