"""Share groups (KIP-932): queues on a log.

The heart is `share_partition.SharePartition`, the in-flight window of one partition for one group. Around it:
`sessions` (who may ask for what, in which order), `waiting` (who is served next when many wait), `discovery` and
`assembly` (from the log's batches to the window, and from the window to the bytes of an answer), `state` (what of the
window survives a crash, in `__share_group_state`) and `dead_letters`. Everything here is pure: no clock, no files, no
network.
"""
