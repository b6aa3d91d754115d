// Command shield scaffolds, runs, inspects and drives game backends written in
// Lua: one verb a file, under 80 lines a verb. A verb parses, makes one client
// call and prints.
//
// Results go to standard output, everything else to standard error, both
// through an IO, which alone knows whether there is a terminal. Only main calls
// os.Exit. The command line knows the control client and the dev server; it
// never imports the Lua machine, QUIC or the inside of a node.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], osIO())) }
