select source, state, count(*) as rows, now() - min(received_at) as oldest_age
from inbox
where state <> 'processed'
group by source, state
