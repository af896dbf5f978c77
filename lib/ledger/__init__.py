"""The ledger: the thesis' findings, whether our numbers can decide them, and the verdicts."""
