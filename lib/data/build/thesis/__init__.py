"""thesis: the published data sets, as dataset folders."""
