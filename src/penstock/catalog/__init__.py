"""What must outlive every process and is no record of a topic: the contract of the catalog, and its engines."""
