package luavm

import (
	"fmt"
	"runtime"
	"unsafe"

	lua "github.com/yuin/gopher-lua"
)

// Protected calls. gopher-lua's PCall installs a panic function of its own, so
// that nobody can say more about an error at the one moment when the stack still
// shows it: the instruction that failed, and the registers it looked at. pcall
// does what PCall does without a handler, with raise in that place.

// plainPanic is gopher-lua's own panic function, which takes the traceback.
var plainPanic = func() func(*lua.LState) {
	L := lua.NewState(lua.Options{CallStackSize: 2, RegistrySize: 128, SkipOpenLibs: true})
	defer L.Close()
	return L.Panic
}()

// raise is how every error of a script begins to unwind: what is on top of the
// stack was thrown. The runtime's own messages are put into better words first.
func raise(L *lua.LState) {
	r := registryOf(L)
	if s, ok := r.array[r.top-1].(lua.LString); ok {
		if text := reword(L, string(s)); text != "" {
			r.array[r.top-1] = lua.LString(text)
		}
	}
	plainPanic(L)
}

// pcall calls the function below nargs arguments. After an error the stack is
// what it was before them. Most callers want protect.
func pcall(L *lua.LState, nargs, nret int) (api *lua.ApiError) {
	frames, r := framesOf(L), registryOf(L)
	sp, base := frames.sp, r.top-nargs-1
	before := L.Panic
	L.Panic = raise
	defer func() {
		L.Panic = before
		if thrown := recover(); thrown != nil {
			api = thrownError(L, thrown)
			clear(r.array[min(base, r.top):r.top])
			r.top = base
		} else if frames.sp == sp && sp > 0 {
			return
		}
		frames.sp = sp
		setFrame(L, frames)
	}()
	L.Call(nargs, nret)
	return nil
}

// thrownError is the error behind a panic, while the stack still shows where.
func thrownError(L *lua.LState, thrown any) *lua.ApiError {
	if api, ok := thrown.(*lua.ApiError); ok {
		return api
	}
	buf := make([]byte, 4096)
	buf = buf[:runtime.Stack(buf, false)]
	return &lua.ApiError{Type: lua.ApiErrorPanic, Object: lua.LString(fmt.Sprint(thrown)), StackTrace: string(buf) + "\n" + plainTrace(L)}
}

// plainTrace is gopher-lua's traceback of L.
func plainTrace(L *lua.LState) (trace string) {
	defer func() {
		if api, ok := recover().(*lua.ApiError); ok {
			trace = api.StackTrace
		}
	}()
	plainPanic(L)
	return ""
}

// setFrame makes the topmost frame the current one.
func setFrame(L *lua.LState, frames *framesMirror) {
	var top *frameMirror
	if frames.sp > 0 {
		top = &frames.array[frames.sp-1]
	}
	*(**frameMirror)(unsafe.Add(unsafe.Pointer(L), offFrame)) = top
}
