"""Group membership and offsets: classic groups, consumer groups (KIP-848), share-group membership, the offset store."""
