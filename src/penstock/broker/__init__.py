"""The shell around the core: listeners, connections, request dispatch, long polls, timers."""
