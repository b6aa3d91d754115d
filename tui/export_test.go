package tui

// Arena lends the fixture to the tests outside the package.
func Arena() *Snapshot { return arena() }
