package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// prompt edits lines on a person's terminal. The terminal is in raw mode while
// a line is being read and, unless Raw was called, as it was in between.
type prompt struct {
	tty     *os.File
	in      *input
	signals <-chan os.Signal // each ends the input; nil = none comes here
	screen  *term.Terminal
	broken  bool // the line that was read last was given up with Ctrl-C
}

// errBreak is Ctrl-C at a prompt.
var errBreak = errors.New("given up")

// breakKey is what stands for Ctrl-C on its way through the line editor, which
// would take that for the end of the input.
const breakKey = 0x1c

// newPrompt makes a prompt on the terminal of io, until ctx or a signal ends it.
// words completes a line at the tab key, as term.Terminal has it. The caller ends
// the prompt's in.
func newPrompt(ctx context.Context, io *IO, signals <-chan os.Signal, words func(line string, pos int, key rune) (string, int, bool)) (*prompt, error) {
	tty, ok := io.In.(*os.File)
	if !ok {
		return nil, fail(exitUsage, "", "a prompt needs a terminal")
	}
	p := &prompt{tty: tty, in: io.Input(ctx), signals: signals}
	p.screen = term.NewTerminal(struct {
		stdio.Reader
		stdio.Writer
	}{&breakReader{r: p.in}, io.Out}, "")
	p.screen.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key == breakKey {
			p.broken = true
			return "", 0, true
		}
		if words == nil || key != '\t' {
			return "", 0, false
		}
		return words(line, pos, key)
	}
	return p, nil
}

// Raw puts the terminal into raw mode until restore is called.
func (p *prompt) Raw() (restore func(), err error) {
	state, err := term.MakeRaw(int(p.tty.Fd()))
	if err != nil {
		return nil, fmt.Errorf("prepare the terminal for a prompt: %w", err)
	}
	return func() { _ = term.Restore(int(p.tty.Fd()), state) }, nil // there is nothing else to try
}

// Fit tells the line editor how wide the terminal is by now.
func (p *prompt) Fit() {
	if w, h, err := term.GetSize(int(p.tty.Fd())); err == nil && w > 0 {
		_ = p.screen.SetSize(w, max(h, 1)) // it can only fail to repaint
	}
}

// ReadLine reads one line in raw mode. The error is errBreak after Ctrl-C, and
// io.EOF after Ctrl-D on an empty line or a signal.
func (p *prompt) ReadLine(text string) (string, error) {
	restore, err := p.Raw()
	if err != nil {
		return "", err
	}
	defer restore()
	defer p.watchSignals()()
	p.Fit()
	p.screen.SetPrompt(text)
	p.broken = false
	line, err := p.screen.ReadLine()
	switch {
	case p.broken:
		return "", errBreak
	case errors.Is(err, cancelreader.ErrCanceled):
		return "", stdio.EOF
	}
	return line, err
}

// watchSignals ends the input at a signal: raw mode leaves no other way out to
// whoever sends one.
func (p *prompt) watchSignals() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.signals:
			p.in.Cancel()
		case <-done:
		}
	})
	return func() { close(done); wg.Wait() }
}

// breakReader turns Ctrl-C into breakKey and the end of the line.
type breakReader struct {
	r    stdio.Reader
	left []byte
}

func (b *breakReader) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		buf := make([]byte, len(p))
		n, err := b.r.Read(buf)
		for _, c := range buf[:n] {
			if c == 0x03 {
				b.left = append(b.left, breakKey, '\r')
			} else {
				b.left = append(b.left, c)
			}
		}
		if len(b.left) == 0 {
			return 0, err
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// offer finishes the word that begins at from with one of words, or lists them
// where several fit. show writes above the prompt.
func offer(line string, pos, from int, words []string, show func(string)) (string, int, bool) {
	if len(words) == 0 {
		return "", 0, false
	}
	best := shared(words)
	if len(words) > 1 && best == line[from:pos] {
		show(strings.Join(words[:min(len(words), 60)], "  "))
		return line, pos, true
	}
	return line[:from] + best + line[pos:], from + len(best), true
}

// typedHistory is what was typed before, kept in a file.
type typedHistory struct {
	lines []string // the oldest first
	file  string   // "" = nowhere
	err   error    // the first that writing met
}

const maxHistory = 1000

// openHistory reads a history. One that can't be read is as good as none.
func openHistory(name string) *typedHistory {
	h := &typedHistory{}
	dir, err := os.UserConfigDir()
	if err != nil {
		return h
	}
	h.file = filepath.Join(dir, "shield", name)
	b, err := os.ReadFile(h.file)
	if err != nil {
		return h
	}
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	lines.Buffer(nil, len(b)+1)
	for lines.Scan() {
		h.lines = append(h.lines, lines.Text())
	}
	if len(h.lines) > 2*maxHistory {
		h.lines = h.lines[len(h.lines)-maxHistory:]
		h.err = os.WriteFile(h.file, []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h
}

// Add implements term.History.
func (h *typedHistory) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if h.file == "" || h.err != nil {
		return
	}
	if h.err = os.MkdirAll(filepath.Dir(h.file), 0o700); h.err != nil {
		return
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		h.err = err
		return
	}
	_, err = f.WriteString(line + "\n")
	h.err = errors.Join(err, f.Close())
}

// Len implements term.History.
func (h *typedHistory) Len() int { return len(h.lines) }

// At implements term.History.
func (h *typedHistory) At(i int) string { return h.lines[len(h.lines)-1-i] }
