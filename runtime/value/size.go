package value

import (
	"math"

	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// The sizes below are exactly what Append writes, so that a local copy and a
// message to another node meet max_message_size at the same value.

const (
	nullSize      = 3 // fixext1
	extHeaderSize = 6 // ext32
)

// asInteger says whether x travels as an integer. Negative zero does not: its
// sign would be lost.
func asInteger(x lua.LNumber) (int64, bool) {
	f := float64(x)
	if f < -1<<63 || f >= 1<<63 {
		return 0, false
	}
	i := int64(f)
	if float64(i) != f || i == 0 && math.Signbit(f) {
		return 0, false
	}
	return i, true
}

func numberSize(x lua.LNumber) int {
	if i, ok := asInteger(x); ok {
		return intSize(i)
	}
	return 9
}

// intSize follows msgp.AppendInt64.
func intSize(i int64) int {
	switch {
	case i >= -32 && i <= math.MaxInt8:
		return 1
	case i < 0 && i >= math.MinInt8:
		return 2
	case i >= math.MinInt16 && i <= math.MaxInt16:
		return 3
	case i >= math.MinInt32 && i <= math.MaxInt32:
		return 5
	}
	return 9
}

// uintSize follows msgp.AppendUint64.
func uintSize(u uint64) int {
	switch {
	case u < 1<<7:
		return 1
	case u <= math.MaxUint8:
		return 2
	case u <= math.MaxUint16:
		return 3
	case u <= math.MaxUint32:
		return 5
	}
	return 9
}

func stringSize(n int) int {
	switch {
	case n <= 31:
		return 1 + n
	case n <= math.MaxUint8:
		return 2 + n
	case n <= math.MaxUint16:
		return 3 + n
	}
	return 5 + n
}

// headerSize is that of an array or map of n elements.
func headerSize(n int) int {
	switch {
	case n <= 15:
		return 1
	case n <= math.MaxUint16:
		return 3
	}
	return 5
}

// tableSize is what a table costs beside its elements: n in the array part, h
// in the hash part.
func tableSize(n, h int, marked bool) int {
	switch {
	case h > 0 && (n > 0 || marked):
		return extHeaderSize + 1 + uintSize(uint64(h)) + headerSize(n)
	case marked:
		return extHeaderSize + headerSize(n)
	case n > 0:
		return headerSize(n)
	}
	return headerSize(h)
}

func handleSize(h shield.Handle) int {
	return extHeaderSize + stringSize(len(h.Node)) + uintSize(uint64(h.Epoch)) + uintSize(uint64(h.ID))
}

func clientRefSize(r shield.ClientRef) int {
	return extHeaderSize + stringSize(len(r.Gateway)) + stringSize(len(r.Session)) + uintSize(uint64(r.Epoch)) +
		stringSize(len(r.Player)) + stringSize(len(r.Profile))
}
