package value

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

func shapes(b *testing.B) map[string]lua.LValue {
	record := `{id = 17, name = "ada", x = 1.5, alive = true}`
	return map[string]lua.LValue{
		"record": lua1(b, "return "+record)[0],
		"array":  lua1(b, "local t = {}; for i = 1, 100 do t[i] = i end; return t")[0],
		"nested": lua1(b, `local t = {}; for i = 1, 50 do t["k"..i] = {i, i + 0.5, name = "n"..i} end; return t`)[0],
		"scalar": lua.LNumber(4711),
	}
}

func BenchmarkCopy(b *testing.B) {
	for name, v := range shapes(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p Payload
				if err := Copy(&p, Args, 0, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWire(b *testing.B) {
	for name, v := range shapes(b) {
		var p Payload
		if err := Copy(&p, Args, 0, v); err != nil {
			b.Fatal(err)
		}
		buf := Append(nil, &p)
		b.Run(name+"/append", func(b *testing.B) {
			for b.Loop() {
				buf = Append(buf[:0], &p)
			}
		})
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var q Payload
				if err := Encode(&q, Args, 0, v); err != nil {
					b.Fatal(err)
				}
				buf = Append(buf[:0], &q)
			}
		})
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var q Payload
				if err := Decode(&q, buf, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCodec(b *testing.B) {
	v := shapes(b)["record"]
	for _, c := range []Codec{JSON, Msgpack} {
		buf, _ := c.Append(nil, v)
		b.Run(c.Name()+"/append", func(b *testing.B) {
			for b.Loop() {
				buf, _ = c.Append(buf[:0], v)
			}
		})
		b.Run(c.Name()+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Decode(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
