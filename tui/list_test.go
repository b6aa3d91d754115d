package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"shield/tui/grid"
)

type thing struct {
	id string
	n  int
}

func things() *list[thing] {
	return newList(func(v *thing) string { return v.id }, func(v *thing) string { return v.id }, []column[thing]{
		{grid.Column{Title: "ID"}, func(_ *pen, v *thing) cell { return plain(v.id) }, text(func(v *thing) string { return v.id })},
		{grid.Column{Title: "N", Right: true}, func(_ *pen, v *thing) cell { return number(v.n) }, value(func(a, b *thing) int { return a.n - b.n })},
	})
}

func (l *list[T]) shownKeys() string {
	var out []string
	for _, r := range l.shown {
		out = append(out, r.key)
	}
	return strings.Join(out, " ")
}

// TestListStaysSorted compares the cheap merge with a sort of everything, over
// any sequence of changes, and checks that the selection is never lost.
func TestListStaysSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := things()
		l.setSize(40, 10)
		model := map[string]thing{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				var vals []thing
				var gone []string
				for range rapid.IntRange(0, 8).Draw(t, "changes") {
					v := thing{fmt.Sprintf("s-%d", rapid.IntRange(0, 20).Draw(t, "id")), rapid.IntRange(0, 5).Draw(t, "n")}
					vals = append(vals, v)
					model[v.id] = v
				}
				for range rapid.IntRange(0, 3).Draw(t, "gone") {
					k := fmt.Sprintf("s-%d", rapid.IntRange(0, 20).Draw(t, "gone id"))
					gone = append(gone, k)
					delete(model, k)
				}
				before, hold := l.shownKeys(), rapid.Bool().Draw(t, "hold")
				l.apply(vals, gone, hold)
				if hold {
					checkHeld(t, before, l.shownKeys(), model)
				}
			case 3:
				l.settle()
			case 4:
				l.sortNext()
			case 5:
				l.move(rapid.IntRange(-5, 5).Draw(t, "move"))
			}
			if len(l.rows) != len(model) || len(l.order) != len(model) {
				t.Fatalf("%d rows, %d in order, want %d", len(l.rows), len(l.order), len(model))
			}
			if len(model) > 0 && (l.sel == nil || l.shown[l.cur] != l.sel) {
				t.Fatalf("the cursor is at %d, not on the selected row", l.cur)
			}
			if !l.pending && !slices.IsSortedFunc(l.order, l.compare) {
				t.Fatalf("not sorted: %s", l.shownKeys())
			}
		}
	})
}

// checkHeld: with the order held no row that stayed changes places.
func checkHeld(t *rapid.T, before, after string, model map[string]thing) {
	var stayed []string
	for _, k := range strings.Fields(before) {
		if _, ok := model[k]; ok {
			stayed = append(stayed, k)
		}
	}
	if !strings.HasPrefix(after+" ", strings.Join(append(stayed, ""), " ")) {
		// A row that went and came back in one change may stand at the end.
		for _, k := range stayed {
			if !strings.Contains(after, k) {
				t.Fatalf("held order changed from %q to %q", before, after)
			}
		}
	}
}

func TestNatural(t *testing.T) {
	sorted := []string{"", "a", "a1", "a1b", "a2", "a10", "a010", "b", "node-2", "node-10", "node-10a", "x"}
	for i := range sorted {
		for j := range sorted {
			got := natural(sorted[i], sorted[j])
			switch {
			case i < j && got >= 0, i == j && got != 0, i > j && got <= 0:
				if sorted[i] == "a10" && sorted[j] == "a010" || sorted[i] == "a010" && sorted[j] == "a10" {
					continue // equal numbers: any order, as long as it is one
				}
				t.Errorf("natural(%q, %q) = %d", sorted[i], sorted[j], got)
			}
		}
	}
}

// TestHeadsAgreeWithTheTexts: what heads say of two texts is what natural says, and
// natural is an order.
func TestHeadsAgreeWithTheTexts(t *testing.T) {
	word := rapid.StringMatching(`[ab0-2/:]{0,12}|[a0]{0,3}[0-9]{0,12}[b0]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		o := natural(a, b)
		if x, y := head(a), head(b); x != y && cmp.Compare(x, y) != o {
			t.Fatalf("head: %q %q by %d, natural by %d", a, b, cmp.Compare(x, y), o)
		}
		if natural(b, a) != -o || (o == 0) != (a == b) {
			t.Fatalf("natural(%q, %q) = %d, the other way round %d", a, b, o, natural(b, a))
		}
		if o <= 0 && natural(b, c) <= 0 && natural(a, c) > 0 {
			t.Fatalf("natural is no order: %q %q %q", a, b, c)
		}
		if x, y := rawHead(a), rawHead(b); x != y && cmp.Compare(x, y) != strings.Compare(a, b) {
			t.Fatalf("rawHead: %q %q by %d", a, b, cmp.Compare(x, y))
		}
		rows := []*row[thing]{{key: a}, {key: b}, {key: c}}
		n := shared(rows, func(r *row[thing]) string { return r.key })
		if x, y := head(a[n:]), head(b[n:]); x != y && cmp.Compare(x, y) != o {
			t.Fatalf("behind %d shared bytes: %q %q by %d, natural by %d", n, a, b, cmp.Compare(x, y), o)
		}
	})
}

// Every kind of order gives the same rows in the same places as its comparison.
func TestRankAgreesWithCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := things()
		l.cols = append(l.cols, column[thing]{grid.Column{Title: "LETTERS"}, l.cols[0].cell, letters(func(v *thing) string { return v.id })},
			column[thing]{grid.Column{Title: "NONE"}, l.cols[0].cell, nil})
		l.widths, l.frame = make([]int, 4), append(l.frame, l.cols[2].Column, l.cols[3].Column)
		l.sortBy, l.desc = rapid.IntRange(0, 3).Draw(t, "column"), rapid.Bool().Draw(t, "desc")
		var vals []thing
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			vals = append(vals, thing{rapid.StringMatching(`s-[0-9a-c]{1,12}|[a-c0-9]{0,3}`).Draw(t, "id"), rapid.IntRange(0, 3).Draw(t, "n")})
		}
		l.replace(vals)
		if !slices.IsSortedFunc(l.order, l.compare) {
			var got []string
			for _, r := range l.order {
				got = append(got, r.key)
			}
			t.Fatalf("by %s, desc %v: %q", l.cols[l.sortBy].Title, l.desc, got)
		}
	})
}

func TestSelectionFollowsTheKey(t *testing.T) {
	l := things()
	l.setSize(40, 10)
	l.replace([]thing{{"a", 3}, {"b", 2}, {"c", 1}})
	l.pick("b")
	l.sortOn("N", false)
	if l.key() != "b" || l.cur != 1 {
		t.Errorf("after a sort the cursor is on %s", l.key())
	}
	l.apply([]thing{{"b", 0}}, nil, false)
	if got := l.shownKeys(); got != "b c a" || l.key() != "b" {
		t.Errorf("after an update: %s, cursor on %s", got, l.key())
	}
	l.setFilter("!b")
	if got := l.shownKeys(); got != "c a" {
		t.Errorf("!b shows %s", got)
	}
	l.apply(nil, []string{"c"}, false)
	if l.key() != "a" {
		t.Errorf("when the row is gone the cursor is on %q", l.key())
	}
}

func TestRowsStayWhileAKeyIsFresh(t *testing.T) {
	l := things()
	l.setSize(40, 10)
	l.sortOn("N", false)
	l.replace([]thing{{"a", 1}, {"b", 2}, {"c", 3}})
	l.apply([]thing{{"a", 9}, {"d", 0}}, []string{"b"}, true)
	if got := l.shownKeys(); got != "a c d" {
		t.Errorf("held: %s, want a c d", got)
	}
	l.settle()
	if got := l.shownKeys(); got != "d c a" {
		t.Errorf("settled: %s, want d c a", got)
	}
}
