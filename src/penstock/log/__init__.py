"""One partition's log: segment files in Kafka's own format, with everything that makes them a log."""
