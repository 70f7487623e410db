"""Where the records are kept: the contract that the broker relies on (`contract`), and the engines behind it."""
