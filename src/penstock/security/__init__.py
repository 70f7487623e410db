"""Who somebody is, what they may do, and how much of it: the decisions of security, without sockets, clocks or chance.

`principals` and `acls` hold the words, `authorizer` decides what a principal may do, `quotas` how much. `scram`,
`plain` and `oauthbearer` are the SASL mechanisms, `sasl` the order in which a connection goes through them, `jaas` how
Kafka's configs name users. Everything here is handed what it needs: time, nonces, credentials, keys. The broker and
the client bring the rest.
"""
