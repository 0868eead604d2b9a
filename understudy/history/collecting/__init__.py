"""Brings the event logs of one run together in one folder, from the machines of its nodes.

`sources` reads from folders of this machine, `ssh` from other machines with the program `ssh`, and `collect` compares
the files and copies them. Nothing at a source is changed, and no file of the folder is replaced by other content.
"""
