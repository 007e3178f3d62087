"""What crosses packages: many-process runs, parity with one process, the whole front door."""
