"""notification-service in Python: a confirmation for every order and a receipt for every payment.

Of Postrider it knows the tables processed_events and outbox_events and nothing else: a relay beside
it, or outbox_worker.py, publishes what stands in the latter.
"""
