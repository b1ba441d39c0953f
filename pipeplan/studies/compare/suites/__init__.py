"""The suites that `plan compare --suite` knows, one TOML file each."""
