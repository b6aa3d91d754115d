package main

import (
	"context"
	stdio "io"
	"sync"

	"github.com/muesli/cancelreader"
)

// input is the standard input for one reader. A read of a terminal or a pipe
// lasts until somebody writes: here it also ends when its context does.
type input struct {
	cancelreader.CancelReader
	forget func() bool
}

// Input opens the standard input. Its reads end with ctx, and then fail.
func (io *IO) Input(ctx context.Context) *input {
	r, err := cancelreader.NewReader(io.In)
	if err != nil { // a file of a disk, which keeps nobody waiting
		r, _ = cancelreader.NewReader(struct{ stdio.Reader }{io.In}) // what is no file is always taken
	}
	return &input{CancelReader: r, forget: context.AfterFunc(ctx, func() { r.Cancel() })}
}

// Close ends the input when nobody reads it any more.
func (in *input) Close() error {
	in.forget()
	return in.CancelReader.Close()
}

// Leave ends the input under the goroutine that reads it and waits for that: it
// must not take what is typed for somebody else. What is neither a terminal nor a
// pipe can't be ended so, and nothing is typed there.
func (in *input) Leave(reader *sync.WaitGroup) {
	if in.Cancel() {
		reader.Wait()
		_ = in.Close() // it is read to its end
	}
}
