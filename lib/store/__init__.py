"""What was computed, kept under keys of what made it; and the processes that compute it."""
