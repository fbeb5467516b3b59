"""OAuth 2.0 of Connections (RFC 6749): access tokens made of what a Secret has, kept in memory, renewed in time.

`grant` reads the Secret, `exchange` asks the token endpoint, `vault` keeps refresh tokens that were replaced, `tokens`
is what polls, watches, effects and clones ask. No access token is written anywhere, and no refresh token is readable
without the Secret that it came from.
"""
