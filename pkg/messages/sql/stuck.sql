-- $1 sources, $2 how long a message of each is expected to have no final status at
-- most.
select m.source, count(*)
from unnest($1::text[], $2::interval[]) as h(source, horizon)
join messages m on m.source = h.source and not m.final and m.registered_at < now() - h.horizon
group by m.source
