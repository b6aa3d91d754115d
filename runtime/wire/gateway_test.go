package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"shield/runtime/shield"
)

type clientVector struct {
	line   string
	format Client
	route  shield.RouteID
	body   []byte
	frame  []byte
}

// clientVectors reads testdata/client.txt, which docs/wire.md points at: other
// clients test against it.
func clientVectors(t testing.TB) []clientVector {
	t.Helper()
	text, err := os.ReadFile("testdata/client.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []clientVector
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		v := clientVector{line: strings.TrimSpace(line)}
		cols := strings.Split(v.line, "|")
		var order string
		if _, err := fmt.Sscan(cols[0], &v.format.RouteIDBytes, &v.format.LengthBytes, &order); err != nil || len(cols) != 4 {
			t.Fatalf("%q: %v", line, err)
		}
		v.format.LittleEndian = order == "little"
		if v.format, err = v.format.Normal(); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		route, err := strconv.ParseUint(strings.TrimSpace(cols[1]), 10, 32)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		v.route = shield.RouteID(route)
		if v.body, err = hex.DecodeString(strings.TrimSpace(cols[2])); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if v.frame, err = hex.DecodeString(strings.TrimSpace(cols[3])); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		t.Fatal("no vectors")
	}
	return all
}

func TestClientVectors(t *testing.T) {
	for _, v := range clientVectors(t) {
		got, err := v.format.Append([]byte("before"), v.route, v.body)
		if err != nil || !bytes.Equal(got[6:], v.frame) {
			t.Errorf("%s: Append = %x, %v", v.line, got, err)
		}
		more := append(bytes.Clone(v.frame), 0xaa)
		route, body, size, err := v.format.Parse(more)
		if err != nil || route != v.route || !bytes.Equal(body, v.body) || size != len(v.frame) {
			t.Errorf("%s: Parse = %d, %x, %d, %v", v.line, route, body, size, err)
		}
		for n := range v.frame {
			if _, _, size, err := v.format.Parse(v.frame[:n]); size != 0 || err != nil {
				t.Errorf("%s: Parse of its first %d bytes = %d, %v, want 0 and no error", v.line, n, size, err)
			}
		}
	}
}

func TestClientLimits(t *testing.T) {
	f, err := Client{MaxFrameSize: 20}.Normal()
	if err != nil || f.MaxBody() != 12 {
		t.Fatalf("Normal = %+v, %v; MaxBody %d, want 12", f, err, f.MaxBody())
	}
	small, err := Client{RouteIDBytes: 1, LengthBytes: 1}.Normal()
	if err != nil || small.MaxBody() != 255 {
		t.Fatalf("Normal = %+v, %v; MaxBody %d, want 255", small, err, small.MaxBody())
	}
	for _, tt := range []struct {
		name string
		f    Client
		at   shield.RouteID
		body int
		want error
	}{
		{"longest body", f, 1, 12, nil},
		{"a byte more", f, 1, 13, ErrClientFrameSize},
		{"longest for one byte of length", small, 255, 255, nil},
		{"a byte more than that", small, 255, 256, ErrClientFrameSize},
		{"route beyond one byte", small, 256, 0, ErrClientRoute},
	} {
		b, err := tt.f.Append([]byte{7}, tt.at, make([]byte, tt.body))
		if !errors.Is(err, tt.want) || err != nil && len(b) != 1 {
			t.Errorf("%s: Append = %d bytes, %v, want %v", tt.name, len(b), err, tt.want)
		}
	}
	if _, _, _, err := f.Parse([]byte{0, 0, 0, 1, 0, 0, 0, 13}); !errors.Is(err, ErrClientFrameSize) {
		t.Errorf("Parse of a length beyond the limit = %v before its body is there, want %v", err, ErrClientFrameSize)
	}
	for _, bad := range []Client{{RouteIDBytes: 3}, {LengthBytes: 8}, {MaxFrameSize: 8}, {MaxFrameSize: MaxClientFrame + 1}, {RouteIDBytes: -1}} {
		if got, err := bad.Normal(); err == nil {
			t.Errorf("Normal of %+v = %+v, want an error", bad, got)
		}
	}
}

func FuzzClient(f *testing.F) {
	for _, v := range clientVectors(f) {
		f.Add(byte(v.format.RouteIDBytes), byte(v.format.LengthBytes), v.format.LittleEndian, v.frame)
	}
	f.Fuzz(func(t *testing.T, id, length byte, little bool, b []byte) {
		c, err := Client{RouteIDBytes: int(id), LengthBytes: int(length), LittleEndian: little, MaxFrameSize: 1 << 10}.Normal()
		if err != nil {
			return
		}
		for {
			route, body, size, err := c.Parse(b)
			if err != nil || size == 0 {
				return
			}
			again, err := c.Append(nil, route, body)
			if err != nil || !bytes.Equal(again, b[:size]) {
				t.Fatalf("%x reads as route %d, body %x, which writes as %x, %v", b[:size], route, body, again, err)
			}
			b = b[size:]
		}
	})
}
