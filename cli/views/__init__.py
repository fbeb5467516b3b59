"""Objects -> tables and text. Pure: no clock, no terminal, no API; untrusted text goes through `printable`."""
