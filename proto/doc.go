// Package proto is the home of the broker's message contracts; the generated
// Go code lies beside each .proto file and is checked for drift by make lint.
package proto
