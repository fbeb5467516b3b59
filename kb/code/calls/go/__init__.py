"""Calls of Go. I own the facts of a file about its declarations and calls, and how calls are resolved over packages."""
