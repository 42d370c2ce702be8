// Package answerline is a stand-in for the Answerline provider: its tasks, its
// API under /v1/async, and what it promises of its deliveries, as the
// provider's documents tell them.
//
//	QUEUED ──▶ PROCESSING ──▶ COMPLETED or FAILED, which are final
//	  │  ▲─────────┘ an engine was lost
//	  └──▶ FAILED, QUEUE_WAIT_EXCEEDED, after four hours without a start
//
// A final task's body is a pure function of the task, so that the API and every
// delivery show the same bytes without their being kept.
package answerline
