-- +goose Up

set lock_timeout = '5s';

create type effect_state as enum ('pending', 'performed', 'given_up');

-- What is to happen, or has happened, because of processed events: one row an
-- event and effect, written in the transaction that applies the event.
create table effects (
  id              bigint generated always as identity primary key,
  source          text not null,
  event_key       text not null,
  name            text not null,
  inbox_id        bigint not null,
  received_at     timestamptz not null,
  change          jsonb,
  traceparent     text,
  state           effect_state not null default 'pending',
  attempts        integer not null default 0,
  next_attempt_at timestamptz default now(),
  claimed_at      timestamptz,
  last_error      text,
  created_at      timestamptz not null default now(),
  performed_at    timestamptz,
  constraint effects_event_key_name_key unique (source, event_key, name),
  constraint effects_check check (
    case state
      when 'pending' then next_attempt_at is not null and performed_at is null
      when 'performed' then performed_at is not null and next_attempt_at is null and claimed_at is null
      else last_error is not null and next_attempt_at is null and claimed_at is null
    end
  )
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05,
        autovacuum_analyze_scale_factor = 0.02);

comment on table effects is 'What is to be done once for each event that it concerns, and what has become of it.';
comment on column effects.name is 'The effect''s name in the sources file.';
comment on column effects.received_at is 'When the event was received, which is where its payload is found.';
comment on column effects.change is 'What the event did to its subject: status, previous, changed. Null where it gave it no status.';
comment on column effects.attempts is 'Calls begun.';
comment on column effects.next_attempt_at is 'When it is due; while claimed_at is set, when its processor is taken for dead.';
comment on column effects.claimed_at is 'Since when a processor has been performing it.';

-- Serves due effects only; those that were given up are never due, and stand at
-- the end of theirs.
create index effects_due on effects (source, name, next_attempt_at) where state <> 'performed';

-- As before, but for the payloads that effects still need.
--
-- Drops the first partition by name, after the one given, whose day ended
-- longer ago than the retention, and returns it; no row when there is none.
-- Payloads of rows that are not processed (pending, waiting, quarantined), and
-- of those with effects that are not performed, are moved to the default
-- partition first. Deliveries wait while they are moved; so a partition with too
-- many of them stays as it is, and is returned as not dropped. No row is missed:
-- a partition of a day gone by gets no new ones, no row becomes unprocessed
-- again, and a row gets its effects in the transaction that makes it processed.
-- +goose StatementBegin
create or replace function drop_payload_partition(retention interval, after text)
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
  -- From the partial indexes, which hold the unprocessed rows and the effects
  -- that are not performed only.
  execute format('
    select array_agg(p.inbox_id), sum(octet_length(p.body))
    from (
      (select id, received_at from inbox
       where state <> ''processed'' and received_at >= $1 and received_at < $2
       limit $3 + 1)
      union
      (select inbox_id, received_at from effects
       where state <> ''performed'' and received_at >= $1 and received_at < $2
       limit $3 + 1)
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
-- than the retention, whose rows are processed and whose effects performed, and
-- returns how many.
-- +goose StatementBegin
create or replace function trim_default_payloads(retention interval, most integer) returns bigint
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
      and not exists (select from effects e where e.inbox_id = p.inbox_id and e.state <> 'performed')
    limit most
  )
  delete from inbox_payload_default p using expired e
  where p.inbox_id = e.inbox_id and p.received_at = e.received_at;
  get diagnostics deleted = row_count;
  return deleted;
end $$;
-- +goose StatementEnd

-- Deletes, of the oldest effects, up to a number, those that were performed longer
-- ago than the retention, and returns how many. An event is processed once, so
-- none of them can come again. The oldest are those of the least ids, which need
-- no index of their own; ten times the number is looked at, so that the old ones
-- that stay, not performed, are passed over.
-- +goose StatementBegin
create function trim_effects(retention interval, most integer) returns bigint
language plpgsql security definer set search_path = public, pg_temp set lock_timeout = '250ms' as $$
declare
  deleted bigint;
begin
  if retention < interval '1 day' then
    raise exception 'the retention of effects is %; it must be a day or more', retention using errcode = 'invalid_parameter_value';
  end if;
  with oldest as materialized (
    select id, state, performed_at from effects order by id limit 10 * most::bigint
  ),
  expired as materialized (
    select id from oldest where state = 'performed' and performed_at < now() - retention order by id limit most
  )
  delete from effects e using expired where e.id = expired.id;
  get diagnostics deleted = row_count;
  return deleted;
end $$;
-- +goose StatementEnd

revoke execute on function trim_effects(interval, integer) from public;
grant execute on function trim_effects(interval, integer) to catchwater_reconciler;

grant select, insert, update on effects to catchwater_processor;
