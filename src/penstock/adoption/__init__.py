"""Takes over the folder of a stopped Apache Kafka, and gives it back."""
