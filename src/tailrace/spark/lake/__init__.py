"""The lake on disk: versions, what they hold, and where each source goes on."""
