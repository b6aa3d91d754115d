// Package client talks to a running project through its control API. It finds
// the socket, makes one HTTP request a method, and follows a watch that attaches
// itself again when the server goes and comes back.
//
// A Client holds no goroutines; a Watch holds one until it is closed.
package client
