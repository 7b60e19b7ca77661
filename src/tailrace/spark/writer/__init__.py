"""The data source ``binlog`` the other way: a DataFrame as a binary log."""
