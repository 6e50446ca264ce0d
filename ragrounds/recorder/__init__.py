"""The recorder: what stands beside a system of anyone's while it answers, and passes on what it asks and does.

It serves by call, in our own process, and by socket, in a host: a process of the system's own, perhaps of another
interpreter and other libraries, that loads this folder under the name ``ragrounds_recorder``. So it imports the
standard library, its own modules by relative imports, and, inside functions alone, what the system has installed. It
runs on Python 3.9 and later. What becomes of a call is decided elsewhere, by whoever the recorder serves.
"""
