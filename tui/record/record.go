// Package record writes what a console saw to a file and plays it again. A
// recording is one JSON object a line: a header, then events with the
// milliseconds since the start. It is how screens are tested and demos made.
//
// A Player and a Recorder are Sources of package tui; they start no goroutines.
package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"shield/tui"
)

// Version is that of the file's form.
const Version = 1

// maxLine is how long a line of a recording may be; a snapshot of a large
// cluster is one line.
const maxLine = 256 << 20

type header struct {
	Recording int       `json:"shield_recording"`
	Began     time.Time `json:"began"`
}

// line is one event, or how a watch ended.
type line struct {
	At    int64      `json:"at_ms"`
	Event *tui.Event `json:"event,omitempty"`
	Lost  string     `json:"lost,omitempty"`
}

// Recorder is a Source that writes down what passes through it.
type Recorder struct {
	src   tui.Source
	began time.Time

	mu  sync.Mutex
	w   *bufio.Writer
	err error
}

// New records src to w. Writing that fails does not disturb the console; Close
// tells.
func New(src tui.Source, w io.Writer) *Recorder {
	r := &Recorder{src: src, began: time.Now(), w: bufio.NewWriter(w)}
	r.write(header{Recording: Version, Began: r.began})
	return r
}

// Watch implements tui.Source.
func (r *Recorder) Watch(ctx context.Context, emit func(tui.Event)) error {
	err := r.src.Watch(ctx, func(ev tui.Event) {
		r.write(line{At: r.since(), Event: &ev})
		emit(ev)
	})
	if err != nil && ctx.Err() == nil {
		r.write(line{At: r.since(), Lost: err.Error()})
	}
	return err
}

func (r *Recorder) since() int64 { return time.Since(r.began).Milliseconds() }

func (r *Recorder) write(v any) {
	b, err := json.Marshal(v)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.w.Write(append(b, '\n'))
	}
	if err == nil {
		err = r.w.Flush() // a recording is most wanted when the end was not foreseen
	}
	if r.err == nil {
		r.err = err
	}
}

// Close reports the first thing that could not be written. The writer stays the
// caller's.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return fmt.Errorf("the recording is not complete: %w", r.err)
	}
	return nil
}

// Player is a Source that plays a recording. Its Watch goes on where the one
// before ended, so that a recorded loss of the server is seen again.
type Player struct {
	scan  *bufio.Scanner
	speed float64
	last  int64
	row   int
}

// Open reads the header of a recording. speed 2 plays twice as fast; 0 is 1.
func Open(r io.Reader, speed float64) (*Player, error) {
	if speed <= 0 {
		speed = 1
	}
	p := &Player{scan: bufio.NewScanner(r), speed: speed, row: 1}
	p.scan.Buffer(make([]byte, 64<<10), maxLine)
	if !p.scan.Scan() {
		return nil, errors.Join(errors.New("not a recording: it is empty"), p.scan.Err())
	}
	var h header
	if err := json.Unmarshal(p.scan.Bytes(), &h); err != nil || h.Recording == 0 {
		return nil, errors.New("not a recording: the first line is no header; make one with shield console --record FILE")
	}
	if h.Recording > Version {
		return nil, fmt.Errorf("the recording has version %d, this program knows up to %d", h.Recording, Version)
	}
	return p, nil
}

// Watch implements tui.Source.
func (p *Player) Watch(ctx context.Context, emit func(tui.Event)) error {
	for p.scan.Scan() {
		p.row++
		var l line
		if err := json.Unmarshal(p.scan.Bytes(), &l); err != nil {
			return fmt.Errorf("%w: line %d is damaged: %w", tui.ErrEnd, p.row, err)
		}
		if err := p.wait(ctx, l.At); err != nil {
			return err
		}
		switch {
		case l.Lost != "":
			return errors.New(l.Lost)
		case l.Event != nil:
			emit(*l.Event)
		}
	}
	if err := p.scan.Err(); err != nil {
		return fmt.Errorf("%w: %w", tui.ErrEnd, err)
	}
	return tui.ErrEnd
}

// wait sleeps until the moment of an event.
func (p *Player) wait(ctx context.Context, at int64) error {
	d := time.Duration(float64(at-p.last) * float64(time.Millisecond) / p.speed)
	p.last = max(at, p.last)
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
