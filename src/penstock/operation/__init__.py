"""What is done to a cluster as a whole, by commands and not by brokers: bring a data folder in and out, back it up."""
