"""mini: the texts inside the wheel of gensim, as dataset folders."""
