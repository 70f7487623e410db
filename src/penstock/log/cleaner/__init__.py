"""Log compaction: keeps the last value of every key (`cleanup.policy=compact`).

The broker decides which log to clean and puts the result in place (`manager`, `swap`); the work itself, which computes,
runs in a child process (`process`), so that it shares neither the interpreter lock nor the event loop with producers
and consumers. What is kept and what is not is decided in `rounds` and `filtering`, which know nothing of processes.
"""
