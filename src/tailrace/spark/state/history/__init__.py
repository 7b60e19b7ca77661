"""The history of tables: each row's versions, with the times between which they were valid."""
