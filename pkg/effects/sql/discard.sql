-- Deletes effects that are not to be performed any more. $1 ids or null,
-- $2 source or null, $3 name or null. One that is being performed stays.
delete from effects
where state <> 'performed' and claimed_at is null
  and ($1::bigint[] is null or id = any($1))
  and ($2::text is null or source = $2)
  and ($3::text is null or name = $3)
returning id
