// Package config turns shield.yaml, an optional overlay, rpc.yaml and the
// environment into plain values, once: Default, Load, Validate.
//
// Load reports every problem it can find at once, each with file, line, column,
// the key's path, what is wrong and the nearest word that would be right. It
// never panics, whatever the bytes. A Config is plain data: it holds no globals,
// starts no goroutines, and may be read from many goroutines as long as nobody
// writes to it; Clone makes one that may be written to.
//
// A key is declared in one place, the field that holds it: its tags carry the
// key, the default, the rule and the words that the schema, `shield config
// show` and the documentation print.
//
// It imports nothing of the runtime but the vocabulary; everyone may import it,
// except the packages that docs/architecture.md keeps free of configuration.
package config
