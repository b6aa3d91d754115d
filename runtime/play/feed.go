package play

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// errEnd is how a Feed says that there are no more lines.
var errEnd = errors.New("end of lines")

// Feed is lines that come in over time and that any number of scripts read,
// each at its own pace.
type Feed struct {
	mu    sync.Mutex
	lines []string
	over  bool
	more  chan struct{} // closed at the next change
}

// NewFeed makes an empty one.
func NewFeed() *Feed { return &Feed{more: make(chan struct{})} }

// Add appends a line.
func (f *Feed) Add(line string) { f.change(func() { f.lines = append(f.lines, line) }) }

// End says that no line will follow.
func (f *Feed) End() { f.change(func() { f.over = true }) }

func (f *Feed) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.more)
	f.more = make(chan struct{})
}

// at gives line i, or end, or else a channel that closes when there may be one.
func (f *Feed) at(i int) (line string, end bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case i < len(f.lines):
		return f.lines[i], false, nil
	case f.over:
		return "", true, nil
	}
	return "", false, f.more
}

// maxLineBytes bounds one line: a frame can't be longer either.
const maxLineBytes = 16 << 20

// ReadLines adds all lines of r and then ends the feed.
func (f *Feed) ReadLines(r io.Reader) error {
	defer f.End()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		f.Add(lines.Text())
	}
	return lines.Err()
}
