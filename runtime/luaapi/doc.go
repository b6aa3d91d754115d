// Package luaapi is shield.*: what a script can say to the runtime.
//
// New gives the functions and metatables that package service binds onto every
// VM of a node. All VMs share them; a function finds the service that calls it
// through the VM. They run on the goroutine that holds the service's baton and
// keep no state of their own but caches that any goroutine may use.
//
// A failure that a script should handle comes back as a value: false or nil,
// and an Error {code, message, retryable, detail}. A mistake in the script
// itself (a number where a function belongs) is thrown.
package luaapi
