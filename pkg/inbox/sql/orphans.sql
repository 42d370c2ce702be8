-- $1 sources, $2 how long a row of each is expected to wait at most.
select i.source, count(*)
from unnest($1::text[], $2::interval[]) as h(source, horizon)
join inbox i on i.source = h.source and i.state = 'waiting' and i.received_at < now() - h.horizon
group by i.source
