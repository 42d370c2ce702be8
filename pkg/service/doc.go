// Package service is the frame every Catchwater service hangs in: its common
// settings, its logger, its health and metrics endpoints, and the way it
// starts and stops.
//
// A service's main is one call of Main. Its work is Run(ctx, Config) error,
// which returns nil when ctx has ended and everything in hand is finished:
//
//	starting ──▶ ready ──ctx ends──▶ unready ──▶ drained ──▶ stopped
//
// The same Run is what `catchwater up` calls, several in one process, so
// nothing here is global: each service has its own logger and its own metrics
// registry.
package service
