// Package luavm runs Lua for services that must not hurt one another.
//
// A World belongs to one node: the locked shared libraries, the compile cache,
// the pool of hands (Lua stacks) and the goroutines of coroutines. Two worlds
// share nothing; what is set once for the process is how gopher-lua executes
// (internals.go). A VM is one service's Lua:
// its globals, modules and limits, and no stack while nothing runs, which is
// why an idle one costs less than a kilobyte.
//
// The caller holds the baton: at most one goroutine is inside a VM at a time.
// Run, Load, Suspend's way back, Parked, Tidy and Close need it. Suspend gives
// it away in the middle of a Lua call and returns when it is back. Everything
// on World, and RunError and ScriptError, is safe from any goroutine.
//
// The world owns its goroutines: one watcher, asleep while nothing runs, and
// one for each coroutine that has started. World.Close ends and awaits them.
//
// What gopher-lua v1.1.2 gets wrong is worked around in one place each; the
// comment there names the fault. internals.go is the only file that looks at
// its unexported parts, and checks their layout before the first VM.
package luavm
