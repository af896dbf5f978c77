"""The ledger: the thesis' findings, whether our numbers can speak to them, and verdicts."""
