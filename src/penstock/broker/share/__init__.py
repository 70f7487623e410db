"""Share groups in the shell: the pure parts of `penstock.queues` joined to logs, timers and connections.

`groups` puts the parts together. A request goes to its session (`sessions`) and from there to the windows of its
partitions (`windows`, and `live` for each of them), which read the log (`reading`), write what changes to the share
coordinator (`coordinator`) and bury what nobody can process (`dead_letters`). `fetch` and `acknowledge` are requests on
their way.
"""
