-- Ends a source's pause where the first word of its reason is one of $2.
update poll_limits set paused_until = now()
where source = $1 and paused_until > now() and split_part(pause_reason, ' ', 1) = any($2)
