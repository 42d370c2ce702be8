select count(*) as open,
  count(*) filter (where task_id is not null and created_at < now() - $2::interval) as overdue,
  count(*) filter (where created_at < now() - $3::interval) as past_horizon
from submitted_tasks where source = $1 and settled_at is null
