-- Results that the inbox has, of tasks registered after they came as well.
update submitted_tasks s set settled_at = now()
from inbox i
where s.settled_at is null and s.source = $1 and i.source = s.source and i.event_key = s.task_id
