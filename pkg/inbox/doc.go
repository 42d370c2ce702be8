// Package inbox owns the tables inbox and inbox_payload: the one place where
// a delivery becomes a fact, and where what has become of it is kept.
//
// A row's life:
//
//	          ┌──────────── Fail, attempts left ───────────┐
//	          ▼                                            │
//	Insert ─▶ pending ──Claim──▶ (in a transaction) ──Done──▶ processed
//	   │                          ▲    │      │
//	   │                        Claim  │    PutOff, what it is about is not known yet
//	   │                          └── waiting ◀┘
//	   │ no key, not JSON              │ Fail, no attempt left or no retry can help
//	   └────────▶ quarantined ◀────────┘
//	                  └──Retry (an operator)──▶ pending
//
// Claims are row locks, so a claim ends with its transaction, however that
// ends. The package decides nothing about what a row means: that is the
// projections' work.
package inbox
