package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"shield/runtime/shield"
)

// MaxClientFrame bounds what max_frame_size may be set to.
const MaxClientFrame = 16 << 20

// Client is the frame format between a gateway and its clients: a route id, the
// length of the body, the body. The zero value of a field stands for its
// default: 4 and 4 bytes, big-endian, frames of 64 KiB at most. Normal fills
// the defaults in; the other methods need them.
type Client struct {
	RouteIDBytes int  // 1, 2 or 4
	LengthBytes  int  // 1, 2 or 4
	LittleEndian bool // byte order of both
	MaxFrameSize int  // header included
}

// Errors of a client's frame. A stream can't be read on after ErrClientFrameSize.
var (
	ErrClientFrameSize = errors.New("the frame is longer than max_frame_size")
	ErrClientRoute     = errors.New("the route id does not fit the header")
)

// Normal returns c with its defaults filled in, or says what can't be.
func (c Client) Normal() (Client, error) {
	if c.RouteIDBytes == 0 {
		c.RouteIDBytes = 4
	}
	if c.LengthBytes == 0 {
		c.LengthBytes = 4
	}
	if c.MaxFrameSize == 0 {
		c.MaxFrameSize = 64 << 10
	}
	for _, n := range []int{c.RouteIDBytes, c.LengthBytes} {
		if n != 1 && n != 2 && n != 4 {
			return c, fmt.Errorf("a route id or length of %d bytes (use 1, 2 or 4)", n)
		}
	}
	if c.MaxFrameSize <= c.Header() || c.MaxFrameSize > MaxClientFrame {
		return c, fmt.Errorf("max_frame_size %d (it includes the header of %d bytes and is at most %d)", c.MaxFrameSize, c.Header(), MaxClientFrame)
	}
	return c, nil
}

// Header is the length of a frame's header.
func (c Client) Header() int { return c.RouteIDBytes + c.LengthBytes }

// MaxBody is the length of the longest body.
func (c Client) MaxBody() int {
	most := c.MaxFrameSize - c.Header()
	if c.LengthBytes < 4 {
		most = min(most, 1<<(8*c.LengthBytes)-1)
	}
	return most
}

// Append adds one frame to b. On an error b is returned as it was.
func (c Client) Append(b []byte, route shield.RouteID, body []byte) ([]byte, error) {
	if len(body) > c.MaxBody() {
		return b, ErrClientFrameSize
	}
	if c.RouteIDBytes < 4 && uint64(route) >= 1<<(8*c.RouteIDBytes) {
		return b, ErrClientRoute
	}
	b = c.appendUint(b, c.RouteIDBytes, uint32(route))
	b = c.appendUint(b, c.LengthBytes, uint32(len(body)))
	return append(b, body...), nil
}

// ParseHeader reads the header at the front of b, which must hold Header bytes.
func (c Client) ParseHeader(b []byte) (route shield.RouteID, body int, err error) {
	route = shield.RouteID(c.uint(b, c.RouteIDBytes))
	n := c.uint(b[c.RouteIDBytes:], c.LengthBytes)
	if uint64(n) > uint64(c.MaxFrameSize-c.Header()) {
		return route, 0, ErrClientFrameSize
	}
	return route, int(n), nil
}

// Parse reads the frame at the front of b. size is its whole length, 0 while b
// does not hold all of it. body is part of b.
func (c Client) Parse(b []byte) (route shield.RouteID, body []byte, size int, err error) {
	if len(b) < c.Header() {
		return 0, nil, 0, nil
	}
	route, n, err := c.ParseHeader(b)
	if err != nil || len(b) < c.Header()+n {
		return route, nil, 0, err
	}
	size = c.Header() + n
	return route, b[c.Header():size:size], size, nil
}

func (c Client) appendUint(b []byte, width int, v uint32) []byte {
	switch {
	case width == 1:
		return append(b, byte(v))
	case width == 2 && c.LittleEndian:
		return binary.LittleEndian.AppendUint16(b, uint16(v))
	case width == 2:
		return binary.BigEndian.AppendUint16(b, uint16(v))
	case c.LittleEndian:
		return binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.BigEndian.AppendUint32(b, v)
}

func (c Client) uint(b []byte, width int) uint32 {
	switch {
	case width == 1:
		return uint32(b[0])
	case width == 2 && c.LittleEndian:
		return uint32(binary.LittleEndian.Uint16(b))
	case width == 2:
		return uint32(binary.BigEndian.Uint16(b))
	case c.LittleEndian:
		return binary.LittleEndian.Uint32(b)
	}
	return binary.BigEndian.Uint32(b)
}
