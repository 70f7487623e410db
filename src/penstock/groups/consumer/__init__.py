"""The consumer group protocol (KIP-848): one heartbeat, assignments computed by the coordinator."""
