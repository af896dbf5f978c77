"""The paper's widths, as a profile scales them."""

TOKEN_DIM = 128  # of token embeddings, as the paper prints it


def scaled(number: int, width: float) -> int:
    """A width of the paper times the profile's `width`, in steps of eight, at least eight."""
    return max(8, 8 * round(number * width / 8))
