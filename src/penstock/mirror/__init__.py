"""Copies a running cluster into another one, with equal offsets, until the programs change over.

Both sides are clusters that speak Kafka's protocol: Penstock or Apache Kafka. `run` is what `penstock mirror` does,
`cut_over` ends it.
"""
