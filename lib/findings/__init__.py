"""What each chapter shows, and the ledger of its claims."""
