select source, state, count(*) as rows, now() - min(received_at) as oldest_age
from inbox
where state in ('pending', 'waiting', 'quarantined')
group by source, state
