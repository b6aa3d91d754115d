// Package testrun is `shield test`: it runs the tests of a project, each file on
// a cluster of its own, of real nodes with real services and gateways, in virtual
// time.
//
// Run is the parent's side. It starts a child of our own binary for each file and
// seed, holds its real-time budget, and hands on what the child reports as
// Events. Child is the other side: it reads a Spec, runs one file inside a
// synctest bubble and writes Events as lines of JSON. A hung file ends its child
// and nothing else. Inside the bubble a Turns gives out one turn at a time, over
// all services, links and clients, as its seed says: that is what makes a run
// repeat byte for byte.
//
// Child takes over the process: it calls os.Exit. Nothing here prints; whoever
// calls Run does.
package testrun
