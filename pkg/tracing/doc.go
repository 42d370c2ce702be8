// Package tracing makes a delivery's way through the services one trace:
//
//	POST /hooks/{source}                                (ingress)
//	├── read
//	├── verify
//	├── store ── insert
//	└── publish catchwater.inbox.<source>
//	    └── process catchwater.inbox.<source>           (processor)
//	        ├── claim
//	        ├── project
//	        └── commit
//
// What is done to many deliveries at once has a trace of its own that links to
// each of them: "insert inbox" in the ingress, "process catchwater.inbox" in the
// processor. A poll is a trace as well: it begins where the reconciler's leader
// publishes the question, and the row that its answer becomes goes on with it.
//
// A trace context travels as text, a W3C traceparent: over HTTP and NATS in the
// header of that name, and through the database in the inbox row. Whoever takes
// work up from a row, however late and whoever told of it, makes its spans part
// of the delivery's trace so:
//
//	ctx = tracing.WithTraceparent(ctx, row.Traceparent)
//	ctx, span := tracer.Child(ctx, "send receipt")
//	defer span.End()
//	…
//	tracing.Fail(span, err)
//
// Child does nothing, and costs next to nothing, where the delivery's trace is
// not recorded. A span says which delivery it is about, by source, event key and
// row, and never holds bodies, secrets, or an error's text, which may quote
// either: only the kind of error. The text is in the log, under the same trace
// id.
package tracing
