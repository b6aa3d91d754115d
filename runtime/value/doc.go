// Package value holds what travels between services: payloads of detached Lua
// values, the rules by which they are copied, and their forms outside a VM.
//
// A detached value belongs to no VM: its tables were made without an LState and
// nobody else holds them. Copy makes a payload in the sender, checking and
// copying in one walk; it is handed over and never copied again. Append and
// Decode are its form between nodes (msgpack), AppendJSON and ParseJSON its
// form for tools, a Codec its form for clients.
//
// All of these accept and reject the same values: nil, booleans, numbers,
// strings of any bytes, tables whose keys are strings or integers, Null,
// handles and client refs travel. A user's metatable does not.
//
// The package starts no goroutines and does no I/O. Its functions may be called
// from any goroutine; a Payload belongs to one at a time.
package value
