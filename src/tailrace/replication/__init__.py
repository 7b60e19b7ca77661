"""What runs beside a server for long: the receiver, and the plugins on it."""
