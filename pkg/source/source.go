// Package source holds what is configured about each provider endpoint: how
// its deliveries are verified, what identifies an event, and what is to be
// made of it.
package source
