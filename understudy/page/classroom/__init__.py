"""A class that takes part in a lesson with its phones, at an address of the local network.

`classroom` holds the step of the class and its votes, `phone_app` is the application that the phones reach,
`class_server` serves it on a port of its own, `teacher_routes` are the routes with which the lesson's page leads the
class, `qr_code` draws the address, and `results` writes the counts. The phones' page is in `static`.
"""
