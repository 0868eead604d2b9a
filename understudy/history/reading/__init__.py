"""Reads event logs, and the transaction log of ZooKeeper.

`lines` decodes one line, `sequences` judges the numbers of an incarnation, and `findings` names what can be wrong.
`reader` reads the files of many brokers, into records in one order (`order`) or into those that the metrics need
(`run_records`); `following` reads files that grow, and `file_marks` recognises files.
"""
