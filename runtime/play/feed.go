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
	over  error         // why no line follows; nil = some may
	more  chan struct{} // closed at the next change
}

// NewFeed makes an empty one.
func NewFeed() *Feed { return &Feed{more: make(chan struct{})} }

// Add appends a line.
func (f *Feed) Add(line string) { f.change(func() { f.lines = append(f.lines, line) }) }

// End says that no line will follow, and with an error why: then the scripts
// that come to it fail with it.
func (f *Feed) End(err error) {
	if err == nil {
		err = errEnd
	}
	f.change(func() { f.over = err })
}

func (f *Feed) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.more)
	f.more = make(chan struct{})
}

// at gives line i, or a channel that closes when there may be one, or why there
// is none.
func (f *Feed) at(i int) (line string, more <-chan struct{}, end error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case i < len(f.lines):
		return f.lines[i], nil, nil
	case f.over != nil:
		return "", nil, f.over
	}
	return "", f.more, nil
}

// maxLineBytes bounds one line: a frame can't be longer either.
const maxLineBytes = 16 << 20

// ReadAll adds all lines of r, as they come. It does not end the feed.
func (f *Feed) ReadAll(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		f.Add(lines.Text())
	}
	return lines.Err()
}
