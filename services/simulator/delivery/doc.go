// Package delivery is a provider's delivery engine: it signs, sends, waits,
// retries and gives up, and keeps the log that the provider's dashboard would
// show. What differs between providers (headers, patience, the schedule of
// retries) is a Contract; the engine knows nothing of tasks or messages, only
// that a Subject has a body to deliver.
//
//	Add ──▶ pending ──attempt──▶ delivered ◀──┐
//	           │ ▲└─ not 2xx, waits ─┘        │ Redeliver: pending again,
//	           │ └──────────────────────── dead with fresh attempts
//	           └─ a fault: dropped
//
// Everything is in memory and ends with the process.
package delivery
