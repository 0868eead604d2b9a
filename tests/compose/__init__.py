"""docker-compose.yml on a real Docker engine. If no engine answers, the tests skip and print why."""
