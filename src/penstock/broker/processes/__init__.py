"""Several brokers on one machine (`penstock serve --brokers N`): a process for each, one data folder, a supervisor."""
