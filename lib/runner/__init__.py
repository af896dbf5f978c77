"""Running notebooks: what a command asks for, what is up to date, the frame of a notebook."""

import sys

# It would be imported wherever notebooks are read, and take seconds (findings/nbformat_import.sh).
sys.modules.setdefault("rfc3987_syntax", None)
