"""The files of the pages; `kb.service.http.page` serves them."""
