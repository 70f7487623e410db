"""A broker inside your tests: real sockets, real clients, nothing to install or to start."""
