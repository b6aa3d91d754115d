package tui

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// order is how the rows of a list may be sorted.
type order[T any] interface{ compare(a, b *T) int }

type byValue[T any] func(a, b *T) int

func (f byValue[T]) compare(a, b *T) int { return f(a, b) }

// byText sorts a text as a person would.
type byText[T any] func(v *T) string

func (f byText[T]) compare(a, b *T) int { return natural(f(a), f(b)) }

// byLetters sorts a text whose digits are no numbers.
type byLetters[T any] func(v *T) string

func (f byLetters[T]) compare(a, b *T) int { return strings.Compare(f(a), f(b)) }

func letters[T any](of func(v *T) string) order[T] { return byLetters[T](of) }

func value[T any](f func(a, b *T) int) order[T] { return byValue[T](f) }
func text[T any](of func(v *T) string) order[T] { return byText[T](of) }

func turned(o int, desc bool) int {
	if desc {
		return -o
	}
	return o
}

// compare orders two rows by the column of choice, then by key, so that the
// order never depends on chance.
func (l *list[T]) compare(a, b *row[T]) int {
	if f := l.cols[l.sortBy].order; f != nil {
		if o := f.compare(a.val, b.val); o != 0 {
			return turned(o, l.desc)
		}
	}
	return natural(a.key, b.key)
}

// ranked stands for a row in a sort: the head of its text, and where it is. It
// holds no pointer, so that moving it costs the garbage collector nothing.
type ranked struct {
	head uint64
	at   int
}

// rank sorts all rows. Nearly all comparisons of texts are those of two numbers
// that lie side by side in memory; ten thousand sessions would take a frame
// otherwise.
func (l *list[T]) rank() {
	rows := slices.Clone(l.order)
	text, begin, isText := func(r *row[T]) string { return r.key }, head, true
	switch of := l.cols[l.sortBy].order.(type) {
	case byText[T]:
		text = func(r *row[T]) string { return of(r.val) }
	case byLetters[T]:
		text, begin = func(r *row[T]) string { return of(r.val) }, rawHead
	default:
		isText = false
	}
	skip := shared(rows, text)
	all := make([]ranked, len(rows))
	for i, r := range rows {
		all[i] = ranked{begin(text(r)[skip:]), i}
		if isText && l.desc {
			all[i].head = ^all[i].head
		}
	}
	heads := func(a, b ranked) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return l.compare(rows[a.at], rows[b.at])
	}
	if value, ok := l.cols[l.sortBy].order.(byValue[T]); ok {
		slices.SortFunc(all, func(a, b ranked) int {
			if o := value(rows[a.at].val, rows[b.at].val); o != 0 {
				return turned(o, l.desc)
			}
			return heads(a, b)
		})
	} else {
		slices.SortFunc(all, heads)
	}
	for i := range all {
		l.order[i] = rows[all[i].at]
	}
}

// shared is how many bytes all texts have in common at their beginning, without
// cutting a number.
func shared[T any](rows []*row[T], text func(*row[T]) string) int {
	if len(rows) == 0 {
		return 0
	}
	first := text(rows[0])
	n := len(first)
	for _, r := range rows {
		s := text(r)
		n = min(n, len(s))
		for n > 0 && s[:n] != first[:n] {
			n--
		}
	}
	for n > 0 && isDigit(first[n-1]) {
		n--
	}
	return n
}

// natural compares like a person: node-2 comes before node-10.
func natural(a, b string) int {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if !isDigit(a[i]) || !isDigit(b[j]) {
			if a[i] != b[j] {
				return cmp.Compare(a[i], b[j])
			}
			i++
			j++
			continue
		}
		x, nx := digits(a[i:])
		y, ny := digits(b[j:])
		if o := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); o != 0 {
			return o
		}
		i += nx
		j += ny
	}
	return cmp.Or(cmp.Compare(len(a)-i, len(b)-j), strings.Compare(a, b))
}

// head is the beginning of a text as a number: where the heads of two texts
// differ, they compare as natural compares the texts. A number is written as its
// length, in the place of a digit, and its digits.
func head(s string) uint64 {
	var out [8]byte
	for n := 0; n < len(out) && s != ""; {
		if !isDigit(s[0]) {
			out[n] = s[0]
			s = s[1:]
			n++
			continue
		}
		x, width := digits(s)
		out[n] = '0' + byte(min(len(x), 9))
		if len(x) >= 9 {
			break // of numbers that long their texts decide
		}
		copy(out[n+1:], x)
		n += 1 + len(x)
		s = s[width:]
	}
	return binary.BigEndian.Uint64(out[:])
}

// rawHead is head for texts that are compared by their letters.
func rawHead(s string) uint64 {
	var out [8]byte
	copy(out[:], s)
	return binary.BigEndian.Uint64(out[:])
}

// digits is the number at the beginning of s, without leading zeros, and how many
// bytes it takes.
func digits(s string) (number string, width int) {
	for width < len(s) && isDigit(s[width]) {
		width++
	}
	return strings.TrimLeft(s[:width], "0"), width
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
