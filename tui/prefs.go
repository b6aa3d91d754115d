package tui

// Prefs is what the console remembers from one start to the next.
type Prefs struct {
	Theme string              `json:"theme,omitempty"`
	Views map[string]ViewPref `json:"views,omitempty"` // by the name of the view: nodes, sessions, ...
}

// ViewPref is what is remembered of one view.
type ViewPref struct {
	Sort    string `json:"sort,omitempty"` // a column's title
	Reverse bool   `json:"reverse,omitempty"`
	Wide    bool   `json:"wide,omitempty"`
	Level   string `json:"level,omitempty"` // logs: the lowest level shown
	Wrap    bool   `json:"wrap,omitempty"`  // logs
}
