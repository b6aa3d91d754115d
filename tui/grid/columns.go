package grid

// Column says how one column of a table may be set.
type Column struct {
	Title    string
	Right    bool // numbers stand at the right
	Middle   bool // too long: lose the middle, not the end
	Min      int  // cells it can be squeezed to; 0: its title
	Max      int  // cells beyond which it does not grow; 0: no limit
	Priority int  // the lowest leaves first when there is no room; 0 never leaves
	Wide     bool // shown only when wide columns are asked for
}

// Placed is one column that is shown.
type Placed struct {
	Index int // in the slice of columns
	Width int
}

// Gap is the room between two columns.
const Gap = 2

// Fit chooses the columns that fit into w cells and their widths. want[i] is
// what the contents of column i would like. Columns are squeezed to their Min
// before one leaves. With wide set all columns are kept, each as wide as what it
// has to say, up to half of w; those beyond the edge are reached by panning.
func Fit(cols []Column, want []int, w int, wide bool) []Placed {
	shown := make([]Placed, 0, len(cols))
	for i := range cols {
		if cols[i].Wide && !wide {
			continue
		}
		shown = append(shown, Placed{Index: i, Width: ideal(&cols[i], want[i])})
		if wide {
			shown[len(shown)-1].Width = max(min(max(want[i], Width(cols[i].Title)), w/2), 1)
		}
	}
	if wide {
		return shown
	}
	for len(shown) > 1 && least(cols, shown) > w {
		i := leaver(cols, shown)
		if i < 0 {
			break
		}
		shown = append(shown[:i], shown[i+1:]...)
	}
	squeeze(cols, shown, w)
	return clip(shown, w)
}

// ideal is the width a column takes when there is room.
func ideal(c *Column, want int) int {
	w := max(want, Width(c.Title))
	if c.Max > 0 {
		w = min(w, max(c.Max, Width(c.Title)))
	}
	return max(w, 1)
}

func smallest(c *Column, width int) int {
	m := c.Min
	if m == 0 {
		m = width
	}
	return min(m, width)
}

// least is the room the columns need when all of them are squeezed.
func least(cols []Column, shown []Placed) int {
	n := Gap * (len(shown) - 1)
	for _, p := range shown {
		n += smallest(&cols[p.Index], p.Width)
	}
	return n
}

// leaver finds the column to give up next, -1 when none may leave.
func leaver(cols []Column, shown []Placed) int {
	best := -1
	for i, p := range shown {
		pr := cols[p.Index].Priority
		if pr > 0 && (best < 0 || pr <= cols[shown[best].Index].Priority) {
			best = i
		}
	}
	return best
}

// squeeze narrows the widest column that can be narrowed until all fit.
func squeeze(cols []Column, shown []Placed, w int) {
	total := Gap * (len(shown) - 1)
	for _, p := range shown {
		total += p.Width
	}
	for total > w {
		best := -1
		for i, p := range shown {
			if p.Width > smallest(&cols[p.Index], p.Width) && p.Width > max(cols[p.Index].Min, 1) &&
				(best < 0 || p.Width > shown[best].Width) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		shown[best].Width--
		total--
	}
}

// clip drops what reaches over the edge; it only happens where the columns that
// never leave are wider than the table.
func clip(shown []Placed, w int) []Placed {
	used := 0
	for i := range shown {
		if i > 0 {
			used += Gap
		}
		if used >= w {
			return shown[:i]
		}
		shown[i].Width = min(shown[i].Width, w-used)
		used += shown[i].Width
	}
	return shown
}
