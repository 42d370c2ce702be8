-- +goose Up

set lock_timeout = '5s';

-- A task is handed out to be asked for, until its poll begins or next_poll_at
-- has passed.
alter table submitted_tasks add column handed_out_at timestamptz;

comment on column submitted_tasks.handed_out_at is 'Since when a reconciler has been asked to ask the provider for the task.';

-- What the leading reconciler hands out, tasks that were never asked for, the
-- oldest first, and tasks that are to be asked for again; and what is handed out.
create index submitted_tasks_unasked on submitted_tasks (source, created_at)
  where settled_at is null and task_id is not null and next_poll_at is null;
create index submitted_tasks_asked on submitted_tasks (source, next_poll_at)
  where settled_at is null and task_id is not null and next_poll_at is not null;
create index submitted_tasks_handed_out on submitted_tasks (source, next_poll_at)
  where handed_out_at is not null;

-- The functions below are how a role that owns nothing keeps the partitions of
-- inbox_payload. Those that need a lock that deliveries wait for give up soon,
-- and are called again.

-- Makes the daily partitions (UTC) of inbox_payload, from today on, that are
-- not there yet, and returns one row for each: not made is a day of which the
-- default partition has rows already. Such a day stays with the default.
-- Attaching takes no lock that an insert into another partition waits for.
-- +goose StatementBegin
create function make_payload_partitions(days_ahead integer) returns table (partition text, made boolean)
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  day date;
  day_begins timestamptz;
  day_ends timestamptz;
begin
  for day in select generate_series(0, least(days_ahead, 60)) + (now() at time zone 'UTC')::date loop
    partition := 'inbox_payload_' || to_char(day, 'YYYYMMDD');
    continue when to_regclass(partition) is not null;
    day_begins := day::timestamp at time zone 'UTC';
    day_ends := (day + 1)::timestamp at time zone 'UTC';
    made := not exists (select from inbox_payload_default where received_at >= day_begins and received_at < day_ends);
    if made then
      begin
        execute format('create table %I (like inbox_payload including defaults including constraints including compression)', partition);
        execute format('alter table inbox_payload attach partition %I for values from (%L) to (%L)', partition, day_begins, day_ends);
      exception when check_violation then -- the default got a row of that day just now
        made := false;
      end;
    end if;
    return next;
  end loop;
end $$;
-- +goose StatementEnd

-- Drops the first partition by name, after the one given, whose day ended
-- longer ago than the retention, and returns it; no row when there is none.
-- Payloads of rows that are not processed (pending, waiting, quarantined) are
-- moved to the default partition first. Deliveries wait while they are moved;
-- so a partition with too many of them stays as it is, and is returned as not
-- dropped. No row is missed: a partition of a day gone by gets no new ones, and
-- no row becomes unprocessed again.
-- +goose StatementBegin
create function drop_payload_partition(retention interval, after text)
returns table (partition text, kept integer, dropped boolean)
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  most constant integer := 10000;
  most_bytes constant bigint := 64 << 20;
  day date;
  ids bigint[];
  bytes bigint;
begin
  if retention < interval '1 day' then
    raise exception 'the retention of payloads is %; it must be a day or more', retention using errcode = 'invalid_parameter_value';
  end if;
  select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') into partition, day
  from pg_inherits h join pg_class c on c.oid = h.inhrelid
  where h.inhparent = 'inbox_payload'::regclass
    and c.relname ~ '^inbox_payload_\d{8}$'
    and c.relname > after
    and (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'UTC' < now() - retention
  order by c.relname
  limit 1;
  if not found then
    return;
  end if;
  -- From the partial index of inbox, which holds the unprocessed rows only.
  execute format('
    select array_agg(p.inbox_id), sum(octet_length(p.body))
    from (
      select id, received_at from inbox
      where state <> ''processed'' and received_at >= $1 and received_at < $2
      limit $3 + 1
    ) i
    join %I p on p.inbox_id = i.id and p.received_at = i.received_at', partition)
  into ids, bytes
  using day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC', most;
  kept := coalesce(cardinality(ids), 0);
  dropped := kept <= most and coalesce(bytes, 0) <= most_bytes;
  if dropped then
    execute format('alter table inbox_payload detach partition %I', partition);
    if kept > 0 then
      execute format('
        insert into inbox_payload (inbox_id, received_at, body, headers)
        select inbox_id, received_at, body, headers from %I where inbox_id = any ($1)', partition)
      using ids;
    end if;
    execute format('drop table %I', partition);
  end if;
  return next;
end $$;
-- +goose StatementEnd

-- Deletes from the default partition up to a number of payloads that are older
-- than the retention and whose rows are processed, and returns how many.
-- +goose StatementBegin
create function trim_default_payloads(retention interval, most integer) returns bigint
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  deleted bigint;
begin
  if retention < interval '1 day' then
    raise exception 'the retention of payloads is %; it must be a day or more', retention using errcode = 'invalid_parameter_value';
  end if;
  with expired as materialized (
    select p.inbox_id, p.received_at
    from inbox_payload_default p
    where p.received_at < now() - retention
      and not exists (select from inbox i where i.id = p.inbox_id and i.state <> 'processed')
    limit most
  )
  delete from inbox_payload_default p using expired e
  where p.inbox_id = e.inbox_id and p.received_at = e.received_at;
  get diagnostics deleted = row_count;
  return deleted;
end $$;
-- +goose StatementEnd

revoke execute on function make_payload_partitions(integer), drop_payload_partition(interval, text),
  trim_default_payloads(interval, integer) from public;
grant execute on function make_payload_partitions(integer), drop_payload_partition(interval, text),
  trim_default_payloads(interval, integer) to catchwater_reconciler;

-- Today's must be there before the first delivery.
select partition, made from make_payload_partitions(7);
