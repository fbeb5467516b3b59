"""Web pages of one site as text.

I own: which addresses may be asked, robots.txt, the limits of a crawl, the text of a page. Who may call me:
`kb.service.http`. A URL is hostile: every name is resolved here, every address is judged, the connection goes to the
very address that was judged, and every redirect begins anew.
"""
