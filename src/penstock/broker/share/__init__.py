"""Share groups in the shell: the pure parts of `penstock.queues` joined to logs, timers and connections.

`groups.ShareGroups` owns everything a broker knows about share groups; `live.LiveSharePartition` is one window with its
log; `fetch.ShareFetch` is one ShareFetch request on its way, with its acknowledgements and its wait.
"""
