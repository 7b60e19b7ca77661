"""Campaigns: random work against real servers, and broken logs, for as long as one likes."""
