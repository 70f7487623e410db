"""Record batches (magic 2): reading, checking, patching, building and compressing them. No I/O, no clock."""
