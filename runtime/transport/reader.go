package transport

import (
	"bufio"
	"errors"
	"io"
	"slices"

	"shield/runtime/wire"
)

// readStep bounds the memory that is taken for bytes which have not arrived.
const readStep = 256 << 10

// reader cuts a stream into frames.
type reader struct {
	r    *bufio.Reader
	used int    // bytes of r that the last frame lies in
	long []byte // holds frames longer than r's buffer
}

// next returns the next frame's kind and body, valid until the call after it.
func (r *reader) next(limit int) (wire.Kind, []byte, error) {
	if _, err := r.r.Discard(r.used); err != nil {
		return 0, nil, err
	}
	r.used = 0
	head, err := r.r.Peek(wire.ClusterHeader)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	n, err := wire.ClusterFrameLen([wire.ClusterHeader]byte(head), limit)
	if err != nil {
		return 0, nil, err
	}
	if whole := wire.ClusterHeader + n; whole <= r.r.Size() {
		frame, err := r.r.Peek(whole)
		if err != nil {
			return 0, nil, short(err)
		}
		r.used = whole
		return wire.Kind(frame[wire.ClusterHeader]), frame[wire.ClusterHeader+1:], nil
	}
	if _, err := r.r.Discard(wire.ClusterHeader); err != nil {
		return 0, nil, err
	}
	frame, err := r.readLong(n)
	if err != nil {
		return 0, nil, short(err)
	}
	return wire.Kind(frame[0]), frame[1:], nil
}

// readLong reads n bytes, taking memory as they come.
func (r *reader) readLong(n int) ([]byte, error) {
	buf := r.long[:0]
	for len(buf) < n {
		step := min(n-len(buf), max(readStep, len(buf)))
		buf = slices.Grow(buf, step)
		part := buf[len(buf) : len(buf)+step]
		if _, err := io.ReadFull(r.r, part); err != nil {
			return nil, err
		}
		buf = buf[:len(buf)+step]
	}
	r.long = nil
	if cap(buf) <= keepBuffer {
		r.long = buf
	}
	return buf, nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
