"""The change record (DESIGN) in the schemas of Spark and of a query."""
