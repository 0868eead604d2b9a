"""The state of a cluster after each record, in Python: the oracle of the page's `fold.js`.

`fold` adds a record to a picture of the cluster, `fold_state` has the picture, and `fold_document` the form in which
the two are compared. Times are whole microseconds, and nothing is changed in place.
"""
