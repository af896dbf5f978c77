"""Running notebooks: what a command asks for, what is up to date, the frame of a notebook."""

import sys

# jsonschema, imported wherever notebooks are read, would import it for seconds; it only checks the
# form of web addresses (findings/nbformat_import.sh).
sys.modules.setdefault("rfc3987_syntax", None)
