package value

import (
	lua "github.com/yuin/gopher-lua"
	"shield/runtime/shield"
)

// nullType is the type of what Null holds; nothing else has it.
type nullType struct{}

// Null is shield.null, in every VM: the value of a key that is there and has
// none, as JSON's null. It is read-only and shared by all VMs, so it equals
// only itself.
var Null = &lua.LUserData{Value: nullType{}, Env: newTable(0, 0), Metatable: nullMeta()}

// arrayMark is what shield.array leaves in a table's Metatable field. It is no
// table, so gopher-lua takes a marked table for one without metatable: nothing
// is looked up in it, and setmetatable puts a real one in its place.
var arrayMark = &lua.LUserData{Env: newTable(0, 0), Metatable: lua.LNil}

func nullMeta() *lua.LTable {
	t := newTable(0, 2)
	t.RawSetString("__metatable", lua.LFalse)
	t.RawSetString("__tostring", &lua.LFunction{IsG: true, Env: newTable(0, 0), GFunction: func(L *lua.LState) int {
		L.Push(lua.LString("null"))
		return 1
	}})
	return t
}

// MarkArray makes t an array for JSON and clients even while it is empty. The
// mark sits where a metatable would: t must have none.
func MarkArray(t *lua.LTable) { t.Metatable = arrayMark }

// IsArrayMark reports whether a table's Metatable field is MarkArray's. Lua
// code is not to see it: getmetatable gives nil.
func IsArrayMark(metatable lua.LValue) bool { return metatable == lua.LValue(arrayMark) }

// NewHandle wraps h for a payload. The receiver gives it its metatable when it
// interns it.
func NewHandle(h shield.Handle) *lua.LUserData {
	return &lua.LUserData{Value: h, Metatable: lua.LNil}
}

// NewClientRef wraps r for a payload, as NewHandle does.
func NewClientRef(r shield.ClientRef) *lua.LUserData {
	return &lua.LUserData{Value: r, Metatable: lua.LNil}
}

// AsHandle unwraps a handle.
func AsHandle(v lua.LValue) (shield.Handle, bool) {
	if ud, ok := v.(*lua.LUserData); ok {
		h, ok := ud.Value.(shield.Handle)
		return h, ok
	}
	return shield.Handle{}, false
}

// AsClientRef unwraps a client ref.
func AsClientRef(v lua.LValue) (shield.ClientRef, bool) {
	if ud, ok := v.(*lua.LUserData); ok {
		r, ok := ud.Value.(shield.ClientRef)
		return r, ok
	}
	return shield.ClientRef{}, false
}
