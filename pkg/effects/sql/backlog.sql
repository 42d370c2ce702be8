select source, name, state, count(*) as effects, now() - min(created_at) as oldest_age
from effects
where state <> 'performed'
group by source, name, state
