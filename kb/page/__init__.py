"""The files of the pages; `kb.http.page` serves them."""
