"""What every part stands on: errors, canonical JSON, hashes, marks, table schemas, files and processes."""
