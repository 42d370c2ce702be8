-- +goose Up

set lock_timeout = '5s';

-- Makes the daily partitions (UTC) of inbox_payload from today on that are not
-- there yet, and returns how many it made. A day for which the default
-- partition has rows already stays with the default. Attaching takes no lock
-- that an insert into another partition waits for.
-- +goose StatementBegin
create function make_payload_partitions(days_ahead integer) returns integer
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  day date;
  made integer := 0;
  leaf text;
begin
  for day in select generate_series(0, days_ahead) + (now() at time zone 'UTC')::date loop
    leaf := 'inbox_payload_' || to_char(day, 'YYYYMMDD');
    continue when to_regclass(leaf) is not null
      or exists (select 1 from inbox_payload_default
                 where received_at >= day::timestamp at time zone 'UTC'
                   and received_at < (day + 1)::timestamp at time zone 'UTC');
    execute format('create table %I (like inbox_payload including defaults including constraints including compression)', leaf);
    execute format('alter table inbox_payload attach partition %I for values from (%L) to (%L)', leaf,
                   day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
    made := made + 1;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

-- Drops the oldest partition whose day ended longer ago than the retention, and
-- returns its name, or null when there is none. Payloads of rows that are not
-- processed (pending, waiting, quarantined) are moved to the default partition
-- first. They are picked before the lock that inserts wait for is taken: an
-- expired partition gets no new rows, and no row becomes unprocessed again.
-- +goose StatementBegin
create function drop_payload_partition(retention interval) returns text
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  leaf text;
begin
  select c.relname into leaf
  from pg_inherits h join pg_class c on c.oid = h.inhrelid
  where h.inhparent = 'inbox_payload'::regclass
    and c.relname ~ '^inbox_payload_\d{8}$'
    and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC' < now() - retention
  order by c.relname
  limit 1;
  if leaf is null then
    return null;
  end if;
  execute format('create temporary table kept_payload on commit drop as
                  select p.inbox_id, p.received_at, p.body, p.headers
                  from %I p join inbox i on i.id = p.inbox_id
                  where i.state <> ''processed''', leaf);
  execute format('alter table inbox_payload detach partition %I', leaf);
  insert into inbox_payload (inbox_id, received_at, body, headers)
  select inbox_id, received_at, body, headers from kept_payload;
  execute format('drop table %I', leaf);
  return leaf;
end $$;
-- +goose StatementEnd

revoke execute on function make_payload_partitions(integer), drop_payload_partition(interval) from public;
grant execute on function make_payload_partitions(integer), drop_payload_partition(interval) to catchwater_reconciler;

select make_payload_partitions(7);
