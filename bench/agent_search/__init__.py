"""What the decision agent does when its model decides wrongly."""
