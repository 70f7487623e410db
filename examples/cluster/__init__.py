"""Three brokers over PostgreSQL and an S3 server, one of which is killed: `make cluster`."""
