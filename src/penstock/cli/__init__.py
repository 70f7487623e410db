"""The `penstock` command. Each command is a module; none is imported before it is called."""
