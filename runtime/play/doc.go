// Package play is a game client: it connects to a gateway as players do, sends
// frames by the names of rpc.yaml and reads what comes back. A Script drives it
// from lines of text, a crowd of them from the same lines.
//
// It knows the wire and the routes, never a gateway or a node: what it can do,
// a client in any language can. A Conn holds a goroutine that reads and one that
// keeps it alive; Close ends them. Recv may be called from one goroutine,
// Send from any.
package play
