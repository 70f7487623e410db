"""The object engine: records in an object store, agreed upon in PostgreSQL; local files are a cache."""
