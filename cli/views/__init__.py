"""Objects -> tables and text. Pure: no clock, no terminal, no API; what a stranger wrote goes through `printable`."""
