// Package koltrix is a stand-in for the Koltrix provider of e-mail: the messages
// that are sent through its API under /v1/messages, the events in their lives,
// and what it promises of their deliveries, as the provider's documents tell
// them: each event is delivered once, with 8 s for an answer, and never again.
//
//	queued ──▶ sent ──▶ delivered ──▶ opened … ──▶ clicked …
//	             │                       ├──▶ unsubscribed
//	             └──▶ bounced            └──▶ complained
//
// A message's status is the one of the highest precedence that any of its events
// gave it. The API knows of an event whether or not its delivery has arrived:
// asking is the only second chance that there is.
package koltrix
