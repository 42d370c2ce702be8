// Package effects owns the table effects: what is to happen because of processed
// events, and what has become of it.
//
// An effect's life:
//
//	Plan.Write ─▶ pending ──Claim──▶ (performed by whoever claimed it) ──Record──▶ performed
//	(with the event's   ▲                          │
//	 own transaction)   └── failed, calls left ────┤
//	                    ▲                          │ no call left, or none can help
//	                    └──Retry (an operator)── given_up
//
// A claim ends when it is recorded, or with its lease: then whoever had it is
// taken for dead, and the next one who claims it performs it again, with the same
// idempotency key. So a call is repeated after a crash between performing and
// recording, and after nothing else that succeeded. How an effect is performed is
// for package target, and when, for the processor.
package effects
