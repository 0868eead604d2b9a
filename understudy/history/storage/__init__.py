"""Opens files by their paths on this machine, or by URLs of object stores and of HDFS."""
