// Package shield is the vocabulary of the runtime: ids and epochs, names and
// targets, states, handles, client references, RPC routes, the rows that tools
// print, and the one table of error codes.
//
// It imports the standard library only, starts no goroutines and does no I/O.
// Everything else may import it; it must not know anything else.
package shield
