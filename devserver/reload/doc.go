// Package reload changes the code of a running service and keeps its state. The
// rule it serves: state lives on as long as the line that initialises it did not
// change (DESIGN.md section 6).
//
// It works in four steps. Analyse reads a file's syntax tree and lists its
// functions, its locals and its slots (whatever a top-level line gives a value,
// by key path). PlanFor matches two versions of a file: which function and which
// local is which, and which slots keep their value. The new version is loaded in
// a scratch VM. Swap then changes the live objects, while the caller holds the
// service's baton: functions get new code in place, so that whoever holds one
// (a table, a timer, a closure, a comparison) goes on holding the same; new code
// shares the cells of the old locals; slots whose line changed take their new
// value. A frame that is suspended keeps its old code under a copy of its own.
//
// Analyse and PlanFor are pure. Swap and Undo touch the VM they are given and
// must run in its turn. Nothing here starts a goroutine.
package reload
