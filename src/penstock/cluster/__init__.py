"""Several brokers as one cluster: who leads what, and who is there. Pure decisions; time is handed in."""
