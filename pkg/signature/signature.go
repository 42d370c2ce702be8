// Package signature verifies and makes the signatures that webhook providers
// put on their deliveries. A scheme is data over a few algorithms, so a new
// provider is a new value of Scheme, not new code. The package knows neither
// HTTP servers nor configuration files nor any store.
package signature
