"""Settings, paths, and the manifest that says which notebook makes which figure."""
