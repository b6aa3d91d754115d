package value

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// forget empties the cache, so that a test does not depend on others.
func forget() {
	for i := range knownShapes {
		knownShapes[i].Store(nil)
	}
}

// Records that share their first keys with a known shape, miss some of it, hold
// nil or come from the cache are what their bytes say.
func TestShapes(t *testing.T) {
	texts := []string{
		`{a = 1, b = 2, c = 3}`, `{a = 1, b = 2, d = 4}`, `{a = 1, c = 2, b = 3}`, `{a = {a = 1, b = 2, c = 3}, b = {}, c = "x"}`,
		`{a = 1}`, `{a = 1, [7] = 2, c = 3}`, `{[1] = "x", a = 1, b = 2}`, `{a = 1, b = 2, this_key_is_longer_than_thirty_one_bytes = 3}`,
	}
	for first := range texts {
		forget()
		for round := range 3 * shapeMisses {
			for i := range texts {
				text := texts[(first+i)%len(texts)]
				v := lua1(t, "return "+text)[0]
				var p, q Payload
				if err := Copy(&p, Args, 0, v); err != nil {
					t.Fatal(err)
				}
				if err := Decode(&q, Append(nil, &p), 0); err != nil {
					t.Fatalf("round %d: %s: %v", round, text, err)
				}
				if d := same(p.At(0), q.At(0)); d != "" {
					t.Fatalf("round %d: %s: %s", round, text, d)
				}
			}
		}
	}
}

// A nil in a map of a peer that another implementation wrote is no key.
func TestShapeWithNil(t *testing.T) {
	forget()
	full := []byte{0x91, 0x82, 0xa1, 'a', 1, 0xa1, 'b', 2}
	holey := []byte{0x91, 0x82, 0xa1, 'a', 1, 0xa1, 'b', 0xc0}
	for _, b := range [][]byte{full, full, holey, full} {
		var p Payload
		if err := Decode(&p, b, 0); err != nil {
			t.Fatal(err)
		}
		tb := p.At(0).(*lua.LTable)
		n := 0
		tb.ForEach(func(_, _ lua.LValue) { n++ })
		if want := 2 - int(b[7])>>7; n != want {
			t.Errorf("Decode(%x) has %d keys, want %d", b, n, want)
		}
	}
}

// Tables of one shape share its keys: a key that one gets is nobody else's.
func TestShapesStayApart(t *testing.T) {
	forget()
	var p Payload
	if err := Copy(&p, Args, 0, lua1(t, `return {a = 1, b = 2}`)[0]); err != nil {
		t.Fatal(err)
	}
	b := Append(nil, &p)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			mine := lua.LString(fmt.Sprintf("key %d", g))
			for range 200 {
				var q Payload
				if err := Decode(&q, b, 0); err != nil {
					t.Error(err)
					return
				}
				tb := q.At(0).(*lua.LTable)
				tb.RawSetString(string(mine), lua.LTrue)
				tb.RawSetString("a", lua.LNil)
				var keys []string
				tb.ForEach(func(k, _ lua.LValue) { keys = append(keys, k.String()) })
				slices.Sort(keys)
				if !slices.Equal(keys, []string{"b", string(mine)}) {
					t.Errorf("keys %q, want b and %q", keys, mine)
					return
				}
			}
		})
	}
	wg.Wait()
}
