package devserver

// headroom keeps the collector from running all the time while the heap is
// small: Go collects when the heap has doubled, and a few services that exchange
// messages double 4 MB every few milliseconds, which takes a fifth of the CPU.
// These bytes count as heap but are never written to, so they take no memory of
// the machine; the garbage that may gather beside them does, up to their size.
//
// They belong to the program and not to a node: whoever runs nodes as a library
// decides about the collector himself (docs/performance.md).
const headroom = 32 << 20
