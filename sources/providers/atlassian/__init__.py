"""What Jira and Confluence have in common: sites and logins, the document format of texts, and effects."""
