// Package service runs the services of one node: their mailboxes, their names,
// their calls, timers and forks, how they start, fail, restart and stop.
//
// The rule that everything here serves is that at most one goroutine is inside
// a service at a time. Whoever holds a service's baton may touch its VM and the
// fields marked "baton"; nobody else. A goroutine that has to wait (for a
// reply, for time, for a child's on_init) hands the baton on first: to a
// handler whose answer has come, else to a worker that goes on with the
// mailbox, else to nobody, and then the service is idle and costs no goroutine.
// Answers go before new messages, so a handler that has begun ends soon.
//
// Every lock is a leaf: a service's (its mailbox, waits and timers), the
// registry's, the clock's, the worker pool's. A service's may be held while the
// clock's is taken; no other two are ever held together. No callback and no Lua
// runs under a lock.
//
// The Runtime starts its own goroutines (pooled workers and one clock) and
// Stop waits for all of them. It has no globals: two runtimes in one process
// share nothing. It does no I/O; other nodes and clients are reached through
// the Remote and Clients that Config hands in.
package service
