"""The page's file; `kb.http.page` serves it."""
