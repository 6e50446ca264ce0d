"""The recorder observes a user's system while it answers, and forwards its calls and events.

It is used by direct calls in ragrounds' own process, and by socket in a host: a separate process of the system, perhaps
with another interpreter and other libraries, that loads this folder under the name ``ragrounds_recorder``. Therefore it
imports only the standard library, its own modules by relative imports, and, inside functions, packages that the system
has installed. It runs on Python 3.9 and later. The side that the recorder serves decides how each call is answered.
"""
