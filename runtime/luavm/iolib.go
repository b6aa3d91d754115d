package luavm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"

	lua "github.com/yuin/gopher-lua"
)

// The io library, with allow_io only. It opens files through the world's FS,
// which knows the allowed folders; there is no popen, no tmpfile and no stdin.

// scriptFile is what a Lua file holds. One that the script has forgotten closes
// when the collector finds it.
type scriptFile struct {
	f       File
	r       *bufio.Reader
	closed  bool
	open    *atomic.Int32 // how many files the VM has open
	cleanup runtime.Cleanup
}

// maxFiles is how many files a VM may have open: those of the whole process are
// limited, and without one it can't take a connection.
const maxFiles = 100

func newScriptFile(vm *VM, f File) *scriptFile {
	s := &scriptFile{f: f, r: bufio.NewReader(f), open: vm.openFiles}
	s.open.Add(1)
	s.cleanup = runtime.AddCleanup(s, func(open *atomic.Int32) {
		open.Add(-1)
		_ = f.Close() // nobody is left who could be told
	}, s.open)
	return s
}

func (s *scriptFile) close() error {
	s.closed = true
	s.cleanup.Stop()
	s.open.Add(-1)
	return s.f.Close()
}

func ioLib(T *lua.LState) Lib {
	methods := T.CreateTable(0, 8)
	for name, f := range map[string]lua.LGFunction{
		"read": fileRead, "write": fileWrite, "lines": fileLines, "close": fileClose,
		"seek": fileSeek, "flush": fileFlush, "setvbuf": fileFlush,
	} {
		methods.RawSetString(name, T.NewFunction(f))
	}
	meta := T.CreateTable(0, 3)
	meta.RawSetString("__index", T.NewFunction(func(L *lua.LState) int {
		L.Push(methods.RawGet(L.Get(2)))
		return 1
	}))
	meta.RawSetString("__metatable", lua.LString("locked"))
	meta.RawSetString("__tostring", T.NewFunction(func(L *lua.LState) int {
		L.Push(lua.LString("file"))
		return 1
	}))
	return Lib{
		"open": func(L *lua.LState) int { return ioOpen(L, meta) }, "lines": func(L *lua.LState) int { return ioLines(L, meta) },
		"close": fileClose, "type": ioType, "write": ioWrite,
	}
}

// openFile opens a file of the world; a scratch VM may read only.
func openFile(L *lua.LState, meta *lua.LTable, path, mode string) (lua.LValue, error) {
	var f File
	open := func(fs FS) (err error) { f, err = fs.OpenFile(path, mode); return err }
	vm := VMOf(L)
	w := vm.world
	if vm.openFiles == nil {
		vm.openFiles = new(atomic.Int32)
	}
	if vm.openFiles.Load() >= maxFiles {
		if w.mayCollect() {
			runtime.GC() // finds the forgotten ones, for the next time
		}
		return nil, fmt.Errorf("the service has %d files open already; close those it is done with (file:close())", maxFiles)
	}
	var err error
	if w.cfg.FS != nil && mode[0] == 'r' && !strings.Contains(mode, "+") {
		err = open(w.cfg.FS)
	} else {
		err = withFS(L, open)
	}
	if err != nil {
		return nil, err
	}
	return &lua.LUserData{Value: newScriptFile(vm, f), Metatable: meta}, nil
}

func ioOpen(L *lua.LState, meta *lua.LTable) int {
	path, mode := L.CheckString(1), L.OptString(2, "r")
	if m := strings.TrimSuffix(mode, "b"); m != "r" && m != "w" && m != "a" && m != "r+" && m != "w+" && m != "a+" {
		L.ArgError(2, "invalid mode")
	}
	f, err := openFile(L, meta, path, mode)
	if err != nil {
		return fileResult(L, path, err)
	}
	L.Push(f)
	return 1
}

func ioLines(L *lua.LState, meta *lua.LTable) int {
	path := L.CheckString(1)
	f, err := openFile(L, meta, path, "r")
	if err != nil {
		L.RaiseError("%s: %s", path, err.Error())
	}
	L.SetTop(0)
	L.Push(f)
	return linesOf(L, true)
}

func ioType(L *lua.LState) int {
	ud, _ := L.CheckAny(1).(*lua.LUserData)
	if ud != nil {
		if f, ok := ud.Value.(*scriptFile); ok {
			L.Push(lua.LString(map[bool]string{false: "file", true: "closed file"}[f.closed]))
			return 1
		}
	}
	L.Push(lua.LNil)
	return 1
}

// ioWrite has no standard output to write to: it goes where print goes.
func ioWrite(L *lua.LState) int {
	var b strings.Builder
	for i := 1; i <= L.GetTop() && b.Len() < maxLine; i++ {
		b.WriteString(clip(L.CheckString(i), maxLine))
	}
	if b.Len() == 0 {
		return 0
	}
	VMOf(L).world.print(L, strings.TrimSuffix(b.String(), "\n"))
	return 0
}

// fileResult is Lua's convention: true, or nil and why.
func fileResult(L *lua.LState, path string, err error) int {
	if err == nil {
		L.Push(lua.LTrue)
		return 1
	}
	L.Push(lua.LNil)
	msg := err.Error()
	if !strings.Contains(msg, path) {
		msg = path + ": " + msg
	}
	L.Push(lua.LString(msg))
	return 2
}

func checkFile(L *lua.LState) *scriptFile {
	ud, _ := L.Get(1).(*lua.LUserData)
	if ud == nil {
		L.ArgError(1, "file expected, got "+L.Get(1).Type().String())
	}
	f, ok := ud.Value.(*scriptFile)
	if !ok {
		L.ArgError(1, "file expected")
	}
	if f.closed {
		L.RaiseError("attempt to use a closed file")
	}
	return f
}

func fileRead(L *lua.LState) int {
	f := checkFile(L)
	n := L.GetTop()
	if n == 1 {
		L.Push(lua.LString("*l"))
		n++
	}
	for i := 2; i <= n; i++ {
		v, err := f.read(L, L.Get(i))
		if err != nil && !errors.Is(err, io.EOF) {
			return fileResult(L, "read", err)
		}
		L.Push(v)
		if v == lua.LNil {
			return i - 1
		}
	}
	return n - 1
}

func (f *scriptFile) read(L *lua.LState, what lua.LValue) (lua.LValue, error) {
	limit := VMOf(L).cfg.Limits.Memory
	if n, ok := what.(lua.LNumber); ok {
		size := toInt64(n)
		checkSize(L, "file:read", int(size))
		if _, err := f.r.Peek(1); err != nil {
			return lua.LNil, err // also for 0 bytes, which asks whether this is the end
		}
		b, err := io.ReadAll(io.LimitReader(f.r, size))
		return lua.LString(b), err
	}
	switch strings.TrimPrefix(lua.LVAsString(what), "*") {
	case "a":
		b, err := io.ReadAll(io.LimitReader(f.r, limit+1))
		checkSize(L, "file:read", len(b))
		return lua.LString(b), err
	case "l":
		return f.line(L)
	case "n":
		return f.number()
	}
	L.ArgError(2, "invalid format")
	return nil, nil
}

// maxDigits is how long a number in a file may be.
const maxDigits = 200

// number reads what can be part of a number, after any space.
func (f *scriptFile) number() (lua.LValue, error) {
	var word []byte
	for len(word) < maxDigits {
		c, err := f.r.ReadByte()
		if err != nil {
			if len(word) == 0 {
				return lua.LNil, err
			}
			break
		}
		if len(word) == 0 && strings.IndexByte(space, c) >= 0 {
			continue
		}
		if !isDigit(c) && !isAlpha(c) && strings.IndexByte("+-.", c) < 0 {
			if err := f.r.UnreadByte(); err != nil {
				return lua.LNil, err
			}
			break
		}
		word = append(word, c)
	}
	return parseNumber(string(word)), nil
}

func (f *scriptFile) line(L *lua.LState) (lua.LValue, error) {
	var b []byte
	for {
		piece, err := f.r.ReadSlice('\n')
		b = append(b, piece...)
		checkSize(L, "file:read", len(b))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(b) == 0:
			return lua.LNil, err
		}
		return lua.LString(strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")), nil
	}
}

func fileWrite(L *lua.LState) int {
	f := checkFile(L)
	for i := 2; i <= L.GetTop(); i++ {
		if _, err := io.WriteString(f.f, L.CheckString(i)); err != nil {
			return fileResult(L, "write", err)
		}
	}
	L.SetTop(1)
	return 1
}

func fileLines(L *lua.LState) int { return linesOf(L, false) }

// linesOf gives an iterator. One that io.lines made closes its file at the end.
func linesOf(L *lua.LState, owned bool) int {
	f := checkFile(L)
	L.Push(L.NewFunction(func(L *lua.LState) int {
		if f.closed {
			L.RaiseError("attempt to use a closed file")
		}
		v, err := f.line(L)
		if err != nil && !errors.Is(err, io.EOF) {
			L.RaiseError("read: %s", err.Error())
		}
		if v == lua.LNil && owned {
			if err := f.close(); err != nil {
				L.RaiseError("close: %s", err.Error())
			}
		}
		L.Push(v)
		return 1
	}))
	return 1
}

func fileClose(L *lua.LState) int {
	return fileResult(L, "close", checkFile(L).close())
}

func fileSeek(L *lua.LState) int {
	f := checkFile(L)
	whence := map[string]int{"set": io.SeekStart, "cur": io.SeekCurrent, "end": io.SeekEnd}
	from, ok := whence[L.OptString(2, "cur")]
	if !ok {
		L.ArgError(2, "invalid option")
	}
	offset := int64(optInt(L, 3, 0))
	if from == io.SeekCurrent {
		offset -= int64(f.r.Buffered()) // the script is behind what was read ahead
	}
	at, err := f.f.Seek(offset, from)
	if err != nil {
		return fileResult(L, "seek", err)
	}
	f.r.Reset(f.f)
	L.Push(lua.LNumber(at))
	return 1
}

func fileFlush(L *lua.LState) int {
	checkFile(L)
	L.Push(lua.LTrue)
	return 1
}
