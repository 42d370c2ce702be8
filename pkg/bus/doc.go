// Package bus is the doorbell: it tells processors and reconcilers over NATS
// JetStream that there is something to look up in Postgres.
//
// Messages carry ids, never bodies and never truth. A message that is lost,
// doubled, late or out of order costs time, not correctness, so nothing here
// waits for the broker: a publish that cannot be made now is counted and
// dropped, and a consumer whose broker, stream or durable went away rebuilds
// what it needs and goes on.
package bus
