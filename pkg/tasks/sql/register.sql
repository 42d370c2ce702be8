insert into submitted_tasks (source, task_id)
select $1, task_id from unnest($2::text[]) as t(task_id) order by task_id
on conflict (source, task_id) do nothing
