"""docker-compose.yml on a real Docker engine. Where no engine answers, the tests skip and print why."""
