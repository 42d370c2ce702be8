-- Takes the next moment at which a poll of a source may be made, and returns
-- the wait until then; no row when it lies too far ahead, or the source is
-- paused. $1 source, $2 between two slots, $3 how far ahead it may lie.
insert into poll_limits as l (source, next_slot_at) values ($1, clock_timestamp() + $2::interval)
on conflict (source) do update
set next_slot_at = greatest(l.next_slot_at, clock_timestamp()) + $2::interval
where l.next_slot_at <= clock_timestamp() + $3::interval and l.paused_until <= clock_timestamp()
returning greatest(l.next_slot_at - $2::interval - clock_timestamp(), interval '0') as wait
