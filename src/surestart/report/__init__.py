"""What people see: text, JSON and HTML of the same values."""
