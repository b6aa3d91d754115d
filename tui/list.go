package tui

import (
	"encoding/json"
	"slices"
	"strings"

	"shield/tui/grid"
)

// column is one column of a list of T.
type column[T any] struct {
	grid.Column
	cell  func(p *pen, v *T) cell
	order order[T] // nil: not sorted by
}

// row is one line of a list with what is needed to find and sort it.
type row[T any] struct {
	key   string
	val   *T
	hay   string // lower-case text the filter looks in; built when first asked for
	moved bool   // its value changed since the list was sorted
	gone  bool
}

// list is a table of rows that are known by a key. The selection follows the
// key, whatever the order; order and filter are the reader's.
type list[T any] struct {
	cols  []column[T]
	keyOf func(*T) string
	hayOf func(*T) string
	why   string // said of an empty list, after "none yet"

	rows   map[string]*row[T]
	order  []*row[T] // sorted; all rows
	shown  []*row[T] // those the filter lets through
	sel    *row[T]
	cur    int  // where sel is in shown
	top    int  // first row on the screen
	tailed bool // keeps the newest in sight

	sortBy  int
	desc    bool
	wide    bool
	pan     int
	needle  string
	invert  bool
	keep    func(*T) bool // a second filter of the view's own, may be nil
	pending bool          // rows changed while the order was held

	w, h   int
	widths []int // of the columns; they only grow, so that nothing twitches
	frame  []grid.Column
}

func newList[T any](keyOf, hayOf func(*T) string, cols []column[T]) *list[T] {
	l := &list[T]{cols: cols, keyOf: keyOf, hayOf: hayOf, rows: map[string]*row[T]{}, widths: make([]int, len(cols))}
	for i := range cols {
		l.frame = append(l.frame, cols[i].Column)
	}
	return l
}

// replace sets all rows anew. Rows that were known stay the rows they were. The
// list keeps vals.
func (l *list[T]) replace(vals []T) {
	old := l.rows
	l.rows = make(map[string]*row[T], len(vals))
	l.order = make([]*row[T], 0, len(vals))
	var fresh []row[T] // one piece of memory: ten thousand small ones take longer than a frame
	for i := range vals {
		key := l.keyOf(&vals[i])
		if prev := l.rows[key]; prev != nil { // a key twice: the last one counts
			prev.val = &vals[i]
			continue
		}
		r := old[key]
		if r == nil {
			if len(fresh) == 0 {
				fresh = make([]row[T], min(len(vals)-i, 512))
			}
			r, fresh = &fresh[0], fresh[1:]
			r.key = key
		}
		r.val, r.hay, r.moved = &vals[i], "", false
		l.rows[key] = r
		l.order = append(l.order, r)
	}
	l.sort()
}

// apply changes some rows. With hold set no row that is on the screen moves.
func (l *list[T]) apply(vals []T, gone []string, hold bool) {
	if len(vals) == 0 && len(gone) == 0 {
		return
	}
	var fresh []*row[T]
	moved := 0
	for i := range vals {
		key := l.keyOf(&vals[i])
		r := l.rows[key]
		if r == nil {
			r = &row[T]{key: key, val: new(T)}
			l.rows[key] = r
			fresh = append(fresh, r)
		} else if !r.moved {
			r.moved = true
			moved++
		}
		*r.val, r.hay = vals[i], "" // a copy: vals may be far larger than what is kept of it
	}
	lost := false
	for _, key := range gone {
		if r := l.rows[key]; r != nil {
			r.gone, lost = true, true
			delete(l.rows, key)
		}
	}
	if lost {
		l.order = slices.DeleteFunc(l.order, func(r *row[T]) bool { return r.gone })
		fresh = slices.DeleteFunc(fresh, func(r *row[T]) bool { return r.gone })
	}
	if hold {
		l.order = append(l.order, fresh...)
		l.pending = true
		l.filter()
		return
	}
	l.merge(fresh)
}

// merge puts fresh and moved rows where they belong. The others are in order
// already, so this costs one pass and not a sort.
func (l *list[T]) merge(fresh []*row[T]) {
	changed := fresh
	rest := l.order[:0:len(l.order)]
	if l.pending {
		l.order = append(l.order, fresh...)
		l.sort()
		return
	}
	for _, r := range l.order {
		if r.moved {
			r.moved = false
			changed = append(changed, r)
			continue
		}
		rest = append(rest, r)
	}
	slices.SortFunc(changed, l.compare)
	out := make([]*row[T], 0, len(rest)+len(changed))
	i := 0
	for _, c := range changed {
		at, _ := slices.BinarySearchFunc(rest[i:], c, l.compare)
		out = append(out, rest[i:i+at]...)
		out = append(out, c)
		i += at
	}
	l.order = append(out, rest[i:]...)
	l.filter()
}

// settle sorts what was held back.
func (l *list[T]) settle() {
	if l.pending {
		l.sort()
	}
}

func (l *list[T]) isPending() bool { return l.pending }

func (l *list[T]) sort() {
	for _, r := range l.order {
		r.moved = false
	}
	l.pending = false
	l.rank()
	l.filter()
}

// filter finds the rows to show and the selection among them.
func (l *list[T]) filter() {
	if l.needle == "" && l.keep == nil {
		l.shown = l.order
	} else {
		l.shown = make([]*row[T], 0, len(l.order))
		for _, r := range l.order {
			if (l.keep == nil || l.keep(r.val)) && l.matches(r) {
				l.shown = append(l.shown, r)
			}
		}
	}
	l.find()
}

func (l *list[T]) matches(r *row[T]) bool {
	if l.needle == "" {
		return true
	}
	if r.hay == "" {
		r.hay = strings.ToLower(l.hayOf(r.val))
	}
	return strings.Contains(r.hay, l.needle) != l.invert
}

// find puts the cursor back on the selected row. When the row is gone, the
// cursor stays where it was on the screen.
func (l *list[T]) find() {
	if l.tailed && len(l.shown) > 0 {
		l.cur = len(l.shown) - 1
		l.sel = l.shown[l.cur]
		l.scroll()
		return
	}
	at := -1
	if l.sel != nil && !l.sel.gone {
		if l.cur < len(l.shown) && l.shown[l.cur] == l.sel {
			at = l.cur
		} else {
			at = slices.Index(l.shown, l.sel)
		}
	}
	if at < 0 {
		at = max(min(l.cur, len(l.shown)-1), 0)
		l.sel = nil
		if at < len(l.shown) {
			l.sel = l.shown[at]
		}
	}
	l.cur = at
	l.scroll()
}

// scroll keeps the cursor on the screen and the screen full.
func (l *list[T]) scroll() {
	n := l.page()
	l.top = min(l.top, l.cur)
	l.top = max(l.top, l.cur-n+1)
	l.top = max(min(l.top, len(l.shown)-n), 0)
}

// page is how many rows fit; one line is the header's.
func (l *list[T]) page() int { return max(l.h-1, 1) }

func (l *list[T]) move(n int) { l.moveTo(l.cur + n) }

func (l *list[T]) moveTo(i int) {
	if len(l.shown) == 0 {
		return
	}
	l.cur = max(min(i, len(l.shown)-1), 0)
	l.sel = l.shown[l.cur]
	l.tailed = l.tailed && l.cur == len(l.shown)-1
	l.scroll()
}

func (l *list[T]) end()            { l.moveTo(len(l.shown) - 1) }
func (l *list[T]) follow(on bool)  { l.tailed = on; l.find() }
func (l *list[T]) following() bool { return l.tailed }
func (l *list[T]) setSize(w, h int) {
	if w != l.w {
		clear(l.widths)
	}
	if l.h == 0 { // it was not on the screen yet
		l.top = 0
	}
	l.w, l.h = w, h
	l.scroll()
}

func (l *list[T]) setFilter(text string) {
	text = strings.ToLower(text)
	l.needle, l.invert = strings.TrimPrefix(text, "!"), strings.HasPrefix(text, "!")
	l.filter()
}

func (l *list[T]) counts() (shown, total int) { return len(l.shown), len(l.order) }

func (l *list[T]) selected() *T {
	if l.sel == nil {
		return nil
	}
	return l.sel.val
}

func (l *list[T]) key() string {
	if l.sel == nil {
		return ""
	}
	return l.sel.key
}

// pick selects the row with the given key.
func (l *list[T]) pick(key string) bool {
	i := slices.IndexFunc(l.shown, func(r *row[T]) bool { return r.key == key })
	if i >= 0 {
		l.moveTo(i)
	}
	return i >= 0
}

// click selects the row on line y of the pane.
func (l *list[T]) click(y int) {
	if i := l.top + y - 1; y >= 1 && i < len(l.shown) {
		l.moveTo(i)
	}
}

func (l *list[T]) keys() []string {
	out := make([]string, 0, len(l.order))
	for _, r := range l.order {
		out = append(out, r.key)
	}
	return out
}

// sortNext sorts by the next column that can be sorted by.
func (l *list[T]) sortNext() {
	for range l.cols {
		l.sortBy = (l.sortBy + 1) % len(l.cols)
		c := &l.cols[l.sortBy]
		if c.order != nil && (l.wide || !c.Wide) {
			break
		}
	}
	l.desc = l.cols[l.sortBy].Right // numbers: the largest first
	l.sort()
}

func (l *list[T]) reverse() { l.desc = !l.desc; l.sort() }

func (l *list[T]) sorted() (title string, desc bool) { return l.cols[l.sortBy].Title, l.desc }

func (l *list[T]) sortOn(title string, desc bool) bool {
	for i := range l.cols {
		if strings.EqualFold(l.cols[i].Title, title) && l.cols[i].order != nil {
			l.sortBy, l.desc = i, desc
			l.sort()
			return true
		}
	}
	return false
}

func (l *list[T]) setWide(on bool) { l.wide, l.pan = on, 0; clear(l.widths) }
func (l *list[T]) isWide() bool    { return l.wide }
func (l *list[T]) panBy(n int)     { l.pan = max(l.pan+n, 0) }

func (l *list[T]) json() string {
	if l.sel == nil {
		return ""
	}
	b, err := json.Marshal(l.sel.val)
	if err != nil {
		return ""
	}
	return string(b)
}
