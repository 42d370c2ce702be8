// Package answers is the projection of results of asynchronous tasks: it owns
// the table answers and knows which job a task was for.
//
// The rules are those of the Answerline reference: results are kept by task
// id; a job is named by the task's idempotency key; FAILED results are stored
// as they are; the winner of a job is its most recently created COMPLETED
// task, which the view job_results picks, so that nothing depends on the order
// in which results arrive.
package answers
