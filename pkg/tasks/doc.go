// Package tasks owns the table submitted_tasks: what this side asked a provider
// for, so that it knows what has not come back. It also holds the limits on
// asking (poll_limits).
//
// A message that was registered and has no final status for long is asked for
// like a task without a result: it is enrolled in the table under its id, and
// all that is said of tasks here holds for it too, but that what closes it is a
// final status in the table messages.
//
// A task is open until a row with its id is in the inbox, overdue when it is
// still open a while after it was submitted, and in need of investigation when
// it is open past the horizon at which the provider must have sent its result
// or given up.
package tasks
