package luavm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// The os library. time and date read the VM's business clock. What would end
// the process, block it or change it for everybody (exit, execute, setenv,
// tmpname) is not here even with allow_os.

func osLib(w *World) Lib {
	lib := Lib{"time": osTime, "date": osDate, "clock": osClock, "difftime": osDifftime}
	if w.cfg.AllowOS {
		lib["getenv"] = func(L *lua.LState) int {
			name := L.CheckString(1)
			if w.cfg.Getenv != nil {
				if v, ok := w.cfg.Getenv(name); ok {
					L.Push(lua.LString(v))
					return 1
				}
			}
			L.Push(lua.LNil)
			return 1
		}
		lib["remove"] = func(L *lua.LState) int {
			path := L.CheckString(1)
			return fileResult(L, path, withFS(L, func(fs FS) error { return fs.Remove(path) }))
		}
		lib["rename"] = func(L *lua.LState) int {
			from, to := L.CheckString(1), L.CheckString(2)
			return fileResult(L, from, withFS(L, func(fs FS) error { return fs.Rename(from, to) }))
		}
	}
	return lib
}

// withFS does something to the world's files, which a scratch VM must leave as
// they are.
func withFS(L *lua.LState, change func(FS) error) error {
	vm := VMOf(L)
	switch {
	case vm.world.cfg.FS == nil:
		return errors.New("no folder is open to scripts (lua.sandbox)")
	case vm.cfg.Inert:
		return errors.New("files are not changed while a new version of the script is tried out")
	}
	return change(vm.world.cfg.FS)
}

func osTime(L *lua.LState) int {
	now := VMOf(L).cfg.Now()
	if L.Get(1) == lua.LNil {
		L.Push(lua.LNumber(now.Unix()))
		return 1
	}
	t := L.CheckTable(1)
	field := func(name string, missing int) int {
		v := t.RawGetString(name)
		if s, ok := v.(lua.LString); ok {
			v = parseNumber(string(s))
		}
		n, ok := v.(lua.LNumber)
		switch {
		case ok && math.Abs(float64(n)) < 1<<31:
			return int(n)
		case ok || missing < 0:
			L.RaiseError("field '%s' missing or out of range in date table", name)
		}
		return missing
	}
	at := time.Date(field("year", -1), time.Month(field("month", -1)), field("day", -1),
		field("hour", 12), field("min", 0), field("sec", 0), 0, now.Location())
	L.Push(lua.LNumber(at.Unix()))
	return 1
}

// osClock counts seconds since the VM was made: time it could have used, like
// the CPU time of C's clock. It never shifts.
func osClock(L *lua.LState) int {
	L.Push(lua.LNumber(time.Since(VMOf(L).born).Seconds()))
	return 1
}

func osDifftime(L *lua.LState) int {
	from := lua.LNumber(0)
	if L.Get(2) != lua.LNil {
		from = checkNumber(L, 2)
	}
	L.Push(checkNumber(L, 1) - from)
	return 1
}

// maxDateFormat is far more than a date needs, and little to do without looking up.
const maxDateFormat = 4 << 10

func osDate(L *lua.LState) int {
	format := L.OptString(1, "%c")
	if len(format) > maxDateFormat {
		L.ArgError(1, fmt.Sprintf("a format of %d bytes is too long, at most %d", len(format), maxDateFormat))
	}
	at := VMOf(L).cfg.Now()
	if L.Get(2) != lua.LNil {
		n := float64(checkNumber(L, 2))
		if !(math.Abs(n) < 1<<53) {
			L.ArgError(2, "time out of range")
		}
		at = time.Unix(int64(math.Floor(n)), 0).In(at.Location())
	}
	if strings.HasPrefix(format, "!") {
		format, at = format[1:], at.UTC()
	}
	if strings.HasPrefix(format, "*t") {
		t := L.CreateTable(0, 9)
		for name, n := range map[string]int{"year": at.Year(), "month": int(at.Month()), "day": at.Day(), "hour": at.Hour(),
			"min": at.Minute(), "sec": at.Second(), "wday": int(at.Weekday()) + 1, "yday": at.YearDay()} {
			t.RawSetString(name, lua.LNumber(n))
		}
		t.RawSetString("isdst", lua.LBool(at.IsDST()))
		L.Push(t)
		return 1
	}
	L.Push(lua.LString(strftime(at, format)))
	return 1
}

// strftime knows the conversions of C89 and those of C99 that are short for some
// of them.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout, ok := strftimeLayouts[format[i]]
		switch {
		case ok:
			b.WriteString(t.Format(layout))
		case format[i] == 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case format[i] == 'w':
			fmt.Fprintf(&b, "%d", int(t.Weekday()))
		case format[i] == 'U':
			fmt.Fprintf(&b, "%02d", (t.YearDay()+6-int(t.Weekday()))/7)
		case format[i] == 'W':
			fmt.Fprintf(&b, "%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7)
		case format[i] == '%':
			b.WriteByte('%')
		case format[i] == 'n':
			b.WriteByte('\n')
		case format[i] == 't':
			b.WriteByte('\t')
		default:
			b.WriteByte('%')
			b.WriteByte(format[i])
		}
	}
	return b.String()
}

var strftimeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06",
	'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

// random is the VM's source of random numbers, made when it is first used.
func (vm *VM) random() *rand.Rand {
	if vm.rand == nil {
		if vm.cfg.Seed != 0 {
			vm.seed(vm.cfg.Seed)
		} else {
			vm.seed(rand.Uint64())
		}
	}
	return vm.rand
}

func (vm *VM) seed(n uint64) { vm.rand = rand.New(rand.NewPCG(n, 0x5851f42d4c957f2d)) }
