package luavm

import (
	"math"
	"sort"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The table library. Written anew because gopher-lua's concat takes any size,
// its sort reads holes and, with the table changed under it, stale memory, and
// its remove takes a deleted tail for the last element.

func tableLib() Lib {
	return Lib{
		"concat": tableConcat, "getn": tableGetn, "insert": tableInsert, "maxn": tableMaxn,
		"pack": tablePack, "remove": tableRemove, "sort": tableSort, "unpack": unpack,
	}
}

func tableGetn(L *lua.LState) int {
	L.Push(lua.LNumber(L.CheckTable(1).Len()))
	return 1
}

// tableMaxn is the largest positive number among the keys.
func tableMaxn(L *lua.LState) int {
	t := L.CheckTable(1)
	n := lua.LNumber(t.MaxN())
	for k, v := range mirrorOf(t).dict {
		if i, ok := k.(lua.LNumber); ok && i > n && v != lua.LNil {
			n = i
		}
	}
	L.Push(n)
	return 1
}

func tablePack(L *lua.LState) int {
	n := L.GetTop()
	t := L.CreateTable(n, 1)
	for i := 1; i <= n; i++ {
		t.RawSetInt(i, L.Get(i))
	}
	t.RawSetString("n", lua.LNumber(n))
	L.Push(t)
	return 1
}

func tableConcat(L *lua.LState) int {
	t, sep := L.CheckTable(1), L.OptString(2, "")
	i, j := optInt(L, 3, 1), optInt(L, 4, t.Len())
	size := 0
	for k := i; k <= j; k++ { // nothing is built before it is known to fit
		v := t.RawGet(lua.LNumber(k))
		if !lua.LVCanConvToString(v) {
			L.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type().String(), k)
		}
		if s, ok := v.(lua.LString); ok {
			size += len(s)
		} else {
			size += 8
		}
		if size += len(sep); size > 1<<20 {
			checkSize(L, "table.concat", size)
		}
		if k&1023 == 0 {
			poll(L)
		}
	}
	var b strings.Builder
	b.Grow(size)
	for k := i; k <= j; k++ {
		if k > i {
			b.WriteString(sep)
		}
		b.WriteString(t.RawGet(lua.LNumber(k)).String())
	}
	L.Push(lua.LString(b.String()))
	return 1
}

func tableInsert(L *lua.LState) int {
	t := L.CheckTable(1)
	checkWrite(L, t)
	switch L.GetTop() {
	case 2:
		t.Append(L.Get(2))
	case 3:
		pos, n := checkInt(L, 2), t.Len()
		if pos >= 1 && pos <= n {
			t.Insert(pos, L.Get(3))
		} else {
			t.RawSet(lua.LNumber(pos), L.Get(3))
		}
	default:
		L.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func tableRemove(L *lua.LState) int {
	t := L.CheckTable(1)
	checkWrite(L, t)
	n := t.Len()
	pos := optInt(L, 2, n)
	if pos < 1 || pos > n {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(t.Remove(pos))
	return 1
}

// sorter sorts a copy: the comparator may change the table, suspend, or
// contradict itself, and none of it can reach past the copy.
type sorter struct {
	L    *lua.LState
	less *lua.LFunction
	v    []lua.LValue
}

func (s *sorter) Len() int      { return len(s.v) }
func (s *sorter) Swap(i, j int) { s.v[i], s.v[j] = s.v[j], s.v[i] }
func (s *sorter) Less(i, j int) bool {
	poll(s.L)
	if s.less == nil {
		return s.L.LessThan(s.v[i], s.v[j])
	}
	s.L.Push(s.less)
	s.L.Push(s.v[i])
	s.L.Push(s.v[j])
	s.L.Call(2, 1)
	yes := lua.LVAsBool(s.L.Get(-1))
	s.L.Pop(1)
	return yes
}

func tableSort(L *lua.LState) int {
	t := L.CheckTable(1)
	checkWrite(L, t)
	s := &sorter{L: L}
	if L.Get(2) != lua.LNil {
		s.less = L.CheckFunction(2)
	}
	s.v = make([]lua.LValue, t.Len())
	for i := range s.v {
		s.v[i] = t.RawGetInt(i + 1)
	}
	sort.Sort(s)
	for i, v := range s.v {
		t.RawSetInt(i+1, v)
	}
	return 0
}

// The math library is gopher-lua's in content; random numbers belong to the VM,
// and huge is infinite.
func mathLib() Lib {
	lib := Lib{
		"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1)),
		"atan2": two(math.Atan2), "fmod": two(math.Mod), "mod": two(math.Mod), "pow": two(math.Pow),
		"deg": one(func(x float64) float64 { return x * 180 / math.Pi }),
		"rad": one(func(x float64) float64 { return x * math.Pi / 180 }),
		"log": mathLog, "max": extreme(func(a, b lua.LNumber) bool { return a > b }), "min": extreme(func(a, b lua.LNumber) bool { return a < b }),
		"frexp": mathFrexp, "ldexp": mathLdexp, "modf": mathModf, "random": mathRandom, "randomseed": mathRandomseed,
	}
	for name, f := range map[string]func(float64) float64{
		"abs": math.Abs, "acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "ceil": math.Ceil, "cos": math.Cos, "cosh": math.Cosh,
		"exp": math.Exp, "floor": math.Floor, "log10": log10, "sin": math.Sin, "sinh": math.Sinh, "sqrt": math.Sqrt,
		"tan": math.Tan, "tanh": math.Tanh,
	} {
		lib[name] = one(f)
	}
	return lib
}

func one(f func(float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(checkNumber(L, 1)))))
		return 1
	}
}

func two(f func(a, b float64) float64) lua.LGFunction {
	return func(L *lua.LState) int {
		L.Push(lua.LNumber(f(float64(checkNumber(L, 1)), float64(checkNumber(L, 2)))))
		return 1
	}
}

func extreme(better func(a, b lua.LNumber) bool) lua.LGFunction {
	return func(L *lua.LState) int {
		best := checkNumber(L, 1)
		for i := 2; i <= L.GetTop(); i++ {
			if n := checkNumber(L, i); better(n, best) {
				best = n
			}
		}
		L.Push(best)
		return 1
	}
}

func mathLog(L *lua.LState) int {
	x := float64(checkNumber(L, 1))
	if L.Get(2) == lua.LNil {
		x = math.Log(x)
	} else if base := float64(checkNumber(L, 2)); base == 10 {
		x = log10(x)
	} else if base == 2 {
		x = math.Log2(x)
	} else {
		x = math.Log(x) / math.Log(base)
	}
	L.Push(lua.LNumber(x))
	return 1
}

// log10 is exact for powers of ten, where Go's is a little less.
func log10(x float64) float64 {
	n := math.Round(math.Log10(x))
	if math.Pow10(int(n)) == x {
		return n
	}
	return math.Log10(x)
}

func mathFrexp(L *lua.LState) int {
	frac, exp := math.Frexp(float64(checkNumber(L, 1)))
	L.Push(lua.LNumber(frac))
	L.Push(lua.LNumber(exp))
	return 2
}

func mathLdexp(L *lua.LState) int {
	L.Push(lua.LNumber(math.Ldexp(float64(checkNumber(L, 1)), checkInt(L, 2))))
	return 1
}

func mathModf(L *lua.LState) int {
	x := float64(checkNumber(L, 1))
	whole := math.Trunc(x)
	frac := x - whole
	if math.IsInf(x, 0) {
		frac = 0
	}
	L.Push(lua.LNumber(whole))
	L.Push(lua.LNumber(frac))
	return 2
}

func mathRandom(L *lua.LState) int {
	r := VMOf(L).random()
	low, high := 1.0, 0.0
	switch L.GetTop() {
	case 0:
		L.Push(lua.LNumber(r.Float64()))
		return 1
	case 1:
		high = math.Floor(float64(checkNumber(L, 1)))
	default:
		low, high = math.Floor(float64(checkNumber(L, 1))), math.Floor(float64(checkNumber(L, 2)))
	}
	if !(low <= high) || math.IsInf(high-low, 0) {
		L.ArgError(min(L.GetTop(), 2), "interval is empty")
	}
	if span := high - low + 1; span < 1<<62 {
		L.Push(lua.LNumber(low + float64(r.Int64N(int64(span)))))
	} else {
		L.Push(lua.LNumber(low + math.Floor(r.Float64()*span)))
	}
	return 1
}

func mathRandomseed(L *lua.LState) int {
	VMOf(L).seed(math.Float64bits(float64(checkNumber(L, 1))))
	return 0
}
