// Package gateway is the edge for client connections: listeners, frames, the
// checks on the way in and out, and the sessions behind them. It never runs a
// handler and never looks into a body to decide anything; each session has one
// target, wherever that lives, and the Router takes frames there.
//
// Goroutines: one accepts for each listener, one reads for each connection, one
// writes for a connection while it has something to write, one sweeps for
// time-outs. Close waits for all of them. The methods of a Gateway may be called
// from any goroutine.
//
// Order: a target hears that a session was bound to it before it gets a frame of
// that session, and hears exactly one of unbound and disconnected when it ends.
// The frames a service pushes to one session arrive in the order pushed.
package gateway
