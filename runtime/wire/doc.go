// Package wire turns bytes into frames and back, for the links between nodes and
// for clients of a gateway. It is pure: no sockets, no goroutines, no logging.
// Lengths are checked before memory is taken for them, and every decoder is
// fuzzed. docs/wire.md is its specification.
package wire
