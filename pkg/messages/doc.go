// Package messages is the projection of status events about messages: it owns
// the tables messages, message_events and suppressions.
//
// The rules are those of the Koltrix reference. A message's status is derived
// from all its events, whatever order they come in: the one of the highest rank
// that any of them gives, since the earliest provider's time at which one did.
// An event that gives a lower status, or none, is recorded and moves nothing.
// Counts are of distinct events, and firsts are the least provider time. An
// event about a message that is not registered waits until it is.
package messages
