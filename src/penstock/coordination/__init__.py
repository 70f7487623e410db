"""What all coordinators share: the effects of a command, the context of a request, and the runtime over a log."""
