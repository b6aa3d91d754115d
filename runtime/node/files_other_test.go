//go:build !unix

package node_test

// mostFiles is how many sockets this process may have open.
func mostFiles() int { return 1 << 14 }
