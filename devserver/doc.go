// Package devserver runs the nodes of one project in this process and is the
// Host of the control API over them: N joined nodes with hot reload for
// `shield dev`, one node for `shield run`.
//
// New binds every port before anything starts, so that a clash leaves nothing
// behind; Start brings the nodes up and opens the control socket when they are
// all online to each other; Stop drains, stops and removes what Start made.
// The Server owns its nodes, the watcher and the control server, and Stop waits
// for all of them. It must not know the command line or the console.
package devserver
