-- How many messages have each status, the lowest first.
select status, count(*)
from messages
group by status
order by min(rank), status
