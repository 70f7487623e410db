"""The transaction coordinator: producer ids and epochs, the state of each transactional id, how a transaction ends."""
