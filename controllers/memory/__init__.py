"""What a run must know before it starts, and what it left behind when its pod could not say so.

I own the documents `task_memory` (written here, read by the Job) and the reading side of `task_results` (written by the
Job). `document` is pure; `mongo` is the only module here that knows a driver.
"""
