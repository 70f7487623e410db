"""The web console: pages that show a Kafka cluster, and change it.

It is a client of the Kafka protocol and knows nothing of the broker, so it works with Apache Kafka too.
docs/how-to/console.md says how the package is laid out.
"""
