"""`python -m tests.cluster.storm --help`"""

from tests.cluster.storm.run import main

main()
