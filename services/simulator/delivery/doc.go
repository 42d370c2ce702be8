// Package delivery is a provider's delivery engine: it signs, sends, waits,
// retries and gives up, and keeps the log that the provider's dashboard would
// show. What differs between providers (headers, patience, the schedule of
// retries) is a Contract; the engine knows nothing of tasks or messages, only
// that a Subject has a body to deliver.
//
//	pending    waits for its next attempt; after one that is not answered 2xx it
//	           waits again, each time about twice as long
//	delivered  was answered 2xx
//	dead       has used up its attempts, or has a target that is never delivered to
//	dropped    a fault: it is never sent
//
// A delivery that has ended can be redelivered: it is pending again under its
// id, with fresh attempts. A delivery reaches the receiver any number of times,
// for an answer can be lost.
//
// Everything is in memory and ends with the process.
package delivery
