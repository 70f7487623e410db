"""The benchmark: the same load from the same client against Penstock and against Apache Kafka."""
