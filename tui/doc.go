// Package tui is the console: one tea.Model that shows a cluster live, and the
// loop that feeds it.
//
// The console reads a [Source]: the control API of a running cluster (package
// tui/attach) or a recording (package tui/record). It never touches a node. One
// goroutine, the feed, owns the source: it attaches, watches, notices gaps,
// attaches again, and hands what it read to the model in batches, at most ten a
// second. The model is used from Bubble Tea's event loop only; Update does no
// I/O and never waits. Whatever a key or a command sets in motion runs in a
// tea.Cmd with a deadline, so a node that does not answer cannot hold a key.
//
// Panes are dumb: they are given rows and a size and print exactly that size.
// Keys are data in tui/keys, styles in tui/theme, widths in tui/grid. Every
// string that came from outside passes [grid.Clean] before it is laid out.
//
// Typed lines are edited by bubbles/textinput. They are drawn by tui/grid: the
// library's own View cuts a line by the widths of code points, and the console
// promises exact widths for any text and ASCII where the locale wants it. For
// the same promise, and because columns leave by priority, rows keep their places
// under a key and greyed keys say why, tables, boxes, help and footer are ours
// and not those of bubbles.
package tui
