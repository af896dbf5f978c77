"""Running notebooks: what a command asks for, what is up to date, the frame of a notebook."""

import sys

# Whoever reads notebooks imports jsonschema, and that would build a parser of web addresses, which
# takes longer than all else that the runner imports (findings/nbformat_import.sh).
sys.modules.setdefault("rfc3987_syntax", None)
