// Package node is one runtime instance: it builds the parts that a
// configuration asks for, connects them, starts and stops them in order, and
// shows them as rows.
//
// Parts meet here and only here: services reach other nodes and sessions through
// it, gateways reach services, and the cluster reaches both. It must not know
// who hosts it: the control API, the dev server and the console are above it.
//
// A Node starts one goroutine of its own (it tells peers what their tools shall
// see); everything else belongs to the parts. Stop waits for all of it.
package node
