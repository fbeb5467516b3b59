"""Labels and annotations by which objects are found again, and the name of the container that runs.

Whoever writes one and whoever selects by it take it from here.
"""

from __future__ import annotations

TASK_UID = "jervis.dev/task-uid"
"""On Jobs and pods: the uid of their task."""
TASK = "jervis.dev/task"
"""On Jobs and pods: the name of their task, cut at 63 characters."""
ATTEMPT = "jervis.dev/attempt"
"""On Jobs and pods: the number of the run."""
BACKEND = "jervis.dev/backend"
"""Annotation of Jobs and pods: the GpuBackend whose slot was booked for them."""
LEADER_EPOCH = "jervis.dev/leader-epoch"
"""Annotation of Jobs: leaseTransitions under which they were written last; an admission policy refuses a lower one."""
LEASE_CREATED = "jervis.dev/lease-created"
"""Annotation of Jobs: the creationTimestamp of the Lease whose leaseTransitions those are; "" when it is not known."""
SUSPENDED_BY = "jervis.dev/suspended-by"
"""Annotation of Jobs: who suspended them. Without it a suspended Job is somebody else's business."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""On Jobs: the queue of Kueue that decides when they run."""
ARCHIVED = "jervis.dev/archived"
"""On finished tasks: "true" once the archive has acknowledged them."""
TEMPLATE_UID = "jervis.dev/template-uid"
"""On the copies of a recurring task: the uid of the task that they are copies of."""
TITLE = "jervis.dev/title"
"""Annotation of a task: what people call it."""
CONTAINER = "orchestrator"
"""The container of a run's pod."""
