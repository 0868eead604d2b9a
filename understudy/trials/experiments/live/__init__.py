"""What the engines share whose brokers run in real time: on processes of this machine, or in containers."""
