"""Membership of share groups (KIP-932): heartbeats, the simple assignor, which share-partitions have state."""
