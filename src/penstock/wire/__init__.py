"""The Kafka protocol: message schemas as tables, codecs compiled from them, framing, error codes."""
