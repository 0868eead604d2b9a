"""A finished run as the page takes it: records in chunks, their payloads, and stretches without records."""
